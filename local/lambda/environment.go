//go:build unix

package lambda

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"tidegate/local/process"
)

// environment is one process of the function with its own Runtime API. It belongs to the
// goroutine that took it from the Function's pool.
type environment struct {
	config  Config
	api     *runtimeAPI
	server  *http.Server
	log     *lines
	process *process.Process
	started time.Time

	idle      *time.Timer // of Config.Idle; nil before the first pause
	idleSince time.Time
}

// spawn starts the process; initialise waits until it is ready.
func spawn(c Config, logLock *sync.Mutex, answered func(*environment)) (*environment, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the runtime API: %w", err)
	}
	e := &environment{config: c, log: &lines{lock: logLock, out: c.Log, prefix: "[" + c.Name + "] "}}
	e.api = newRuntimeAPI(c.arn(), func() { answered(e) })
	e.server = &http.Server{Handler: e.api.handler(), ReadHeaderTimeout: c.InitTimeout}
	cmd := exec.Command(c.Binary)
	cmd.Dir = filepath.Dir(c.Binary)
	cmd.Env = c.environ(listener.Addr().String())
	cmd.Stdout, cmd.Stderr = e.log, e.log
	e.started = time.Now()
	if e.process, err = process.Start(cmd); err != nil {
		_ = listener.Close()
		return nil, err
	}
	go func() { _ = e.server.Serve(listener) }() // ends with close
	return e, nil
}

// initialise waits for the first call of next. After an error the environment cannot be
// used.
func (e *environment) initialise() error {
	timer := time.NewTimer(e.config.InitTimeout)
	defer timer.Stop()
	select {
	case <-e.api.nextCalls:
		e.freeze()
		return nil
	case err := <-e.api.initFailed:
		return &InitError{Err: err}
	case <-e.process.Done():
		return &InitError{Err: e.initCause()}
	case <-timer.C:
		return &InitError{Err: &TimeoutError{After: e.config.InitTimeout}}
	}
}

// initCause returns the error that the process reported before it ended, or else its exit
// status.
func (e *environment) initCause() error {
	select {
	case err := <-e.api.initFailed:
		return err
	default:
		return &CrashError{Err: e.process.Err()}
	}
}

// run runs one invocation until the runtime asks for the next one. It returns false when
// the environment has to be closed.
func (e *environment) run(inv *invocation) bool {
	timer := time.NewTimer(e.config.Timeout)
	defer timer.Stop()
	e.process.Thaw()
	e.api.deliver(delivery{invocation: inv, deadline: time.Now().Add(e.config.Timeout)})
	select {
	case done := <-e.api.nextCalls:
		e.freeze()
		e.config.Report(Report{PID: e.process.PID(), Started: e.started, Delivered: inv.delivered,
			Answered: inv.answered, Done: done})
		return true
	case <-timer.C:
		inv.finish(outcome{err: &TimeoutError{After: e.config.Timeout}})
	case <-e.process.Done():
		inv.finish(outcome{err: &CrashError{Err: e.process.Err()}})
	}
	return false
}

func (e *environment) freeze() {
	if !e.config.NoFreeze {
		e.process.Freeze()
	}
}

func (e *environment) dead() bool {
	select {
	case <-e.process.Done():
		return true
	default:
		return false
	}
}

// shutdownTime is Lambda's time between SIGTERM and SIGKILL for a runtime with an
// internal extension. A runtime without one gets no SIGTERM.
const shutdownTime = 500 * time.Millisecond

// end kills the process and waits for its end. A process with an extension gets SIGTERM
// first.
func (e *environment) end() {
	if e.api.extended.Load() {
		e.process.Terminate(shutdownTime)
	}
	e.process.Kill()
}

// close ends the process and its Runtime API.
func (e *environment) close() {
	e.end()
	e.log.flush()
	_ = e.server.Close() // cannot fail in a way that matters: its one client is dead
}

// maxLine is the maximum length of a log line; a longer one is split.
const maxLine = 64 << 10

// lines copies whole lines to out with a prefix. Several may share out if they share its
// lock.
type lines struct {
	lock   *sync.Mutex
	out    io.Writer
	prefix string
	rest   []byte
}

// Write never fails: a function must not notice errors of its log.
func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 && len(l.rest) < maxLine {
			return len(p), nil
		}
		if i < 0 || i > maxLine {
			l.emit(l.rest[:maxLine])
			l.rest = l.rest[maxLine:]
			continue
		}
		l.emit(l.rest[:i])
		l.rest = l.rest[i+1:]
	}
}

// flush writes the unfinished last line. Nothing may be written after it.
func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.emit(l.rest)
		l.rest = nil
	}
}

func (l *lines) emit(line []byte) {
	l.lock.Lock()
	defer l.lock.Unlock()
	_, _ = l.out.Write(append(append([]byte(l.prefix), bytes.TrimRight(line, "\r")...), '\n'))
}
