package valkeytest

import (
	"bytes"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// process is a child process that is ready once its output has certain words.
type process struct {
	command *exec.Cmd
	output  *log
	exited  chan struct{}
}

// run starts the command and returns when its output holds the words, or with an error
// when it ends first or takes too long.
func run(command *exec.Cmd, ready string, timeout time.Duration) (*process, error) {
	p := &process{command: command, output: &log{words: []byte(ready), seen: make(chan struct{})},
		exited: make(chan struct{})}
	command.Stdout, command.Stderr = p.output, p.output
	command.SysProcAttr = dieWithParent()
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("start process: %w", err)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.output.seen:
		return p, nil
	case <-p.exited:
		return nil, fmt.Errorf("it ended (%v) before it was ready and wrote:\n%s",
			command.ProcessState, p.output)
	case <-timer.C:
		p.stop()
		return nil, fmt.Errorf("it was not ready within %v and wrote:\n%s", timeout, p.output)
	}
}

// start keeps the thread that forked for as long as the child lives, because Linux counts
// that thread's end as the death of the parent.
func (p *process) start() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err != nil {
			return
		}
		_ = p.command.Wait() // How it ended is in ProcessState.
		close(p.exited)
	}()
	return <-started
}

// stop kills the process, which has nothing worth saving, and returns when it is gone.
func (p *process) stop() {
	_ = p.command.Process.Kill() // It may have ended on its own.
	<-p.exited
}

// log keeps the output of a process, and closes seen when the words appear in it.
type log struct {
	words []byte
	seen  chan struct{}

	mu    sync.Mutex
	text  []byte
	found bool
}

// maxLog bounds the output that is kept in memory, from its first line on.
const maxLog = 256 << 10

// Write never fails, since an error would close the process's output.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := maxLog - len(l.text); room > 0 {
		l.text = append(l.text, p[:min(len(p), room)]...)
	}
	if !l.found && bytes.Contains(l.text, l.words) {
		l.found = true
		close(l.seen)
	}
	return len(p), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
