//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// runtimeAPI is the part of Lambda's Runtime API that one process needs. It does little
// itself, so that measurements are of the function.
type runtimeAPI struct {
	server *http.Server
	addr   string
	events chan []byte
	given  chan time.Time
	done   chan answered

	lock sync.Mutex
	last time.Time       // when the last answer arrived
	held []time.Duration // from each answer until the function asked for the next event
}

// answered is what the function said, and when it had arrived.
type answered struct {
	at     time.Time
	body   []byte
	failed bool
}

func newRuntimeAPI() (*runtimeAPI, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("runtime API: %w", err)
	}
	r := &runtimeAPI{addr: listener.Addr().String(), events: make(chan []byte, 1),
		given: make(chan time.Time, 1), done: make(chan answered, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", r.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response",
		func(w http.ResponseWriter, q *http.Request) { r.answer(w, q, false) })
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error",
		func(w http.ResponseWriter, q *http.Request) { r.answer(w, q, true) })
	mux.HandleFunc("POST /2020-01-01/extension/register", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Lambda-Extension-Identifier", "1")
		_, _ = io.WriteString(w, "{}")
	})
	mux.HandleFunc("GET /2020-01-01/extension/event/next", func(_ http.ResponseWriter, q *http.Request) {
		<-q.Context().Done()
	})
	r.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

func (r *runtimeAPI) close() { _ = r.server.Close() }

func (r *runtimeAPI) next(w http.ResponseWriter, q *http.Request) {
	r.lock.Lock()
	if !r.last.IsZero() {
		r.held = append(r.held, time.Since(r.last))
	}
	r.lock.Unlock()
	select {
	case event := <-r.events:
		h := w.Header()
		h.Set("Lambda-Runtime-Aws-Request-Id", "1")
		h.Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()))
		h.Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:123456789012:function:check")
		h.Set("Content-Type", "application/json")
		r.given <- time.Now()
		_, _ = w.Write(event)
	case <-q.Context().Done():
	}
}

func (r *runtimeAPI) answer(w http.ResponseWriter, q *http.Request, failed bool) {
	at := time.Now()
	body, _ := io.ReadAll(q.Body)
	r.lock.Lock()
	r.last = at
	r.lock.Unlock()
	w.WriteHeader(http.StatusAccepted)
	r.done <- answered{at, body, failed}
}

var errAnswer = errors.New("the function did not answer as it should")

// invoke hands an event out and returns how long the answer took.
func (r *runtimeAPI) invoke(event []byte) (time.Duration, []byte, error) {
	r.events <- event
	select {
	case given := <-r.given:
		return r.wait(given)
	case <-time.After(time.Minute):
		return 0, nil, fmt.Errorf("%w: it does not ask for events", errAnswer)
	}
}

func (r *runtimeAPI) wait(since time.Time) (time.Duration, []byte, error) {
	select {
	case a := <-r.done:
		if a.failed {
			return 0, nil, fmt.Errorf("%w: %s", errAnswer, a.body)
		}
		return a.at.Sub(since), a.body, nil
	case <-time.After(time.Minute):
		return 0, nil, fmt.Errorf("%w: it is silent", errAnswer)
	}
}

// function is a program that asks the Runtime API for events.
type function struct {
	name    string
	command []string
	env     []string
}

func (r *runtimeAPI) start(ctx context.Context, f function) (*exec.Cmd, error) {
	process := exec.CommandContext(ctx, f.command[0], f.command[1:]...)
	lambda := []string{"AWS_LAMBDA_RUNTIME_API=" + r.addr, "AWS_LAMBDA_FUNCTION_NAME=check",
		"AWS_REGION=us-east-1", "_HANDLER=bootstrap"}
	process.Env = slices.Concat(lambda, f.env)
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", f.name, err)
	}
	return process, nil
}

// stop ends a function that start started.
func stop(process *exec.Cmd) {
	_ = process.Process.Kill()
	_ = process.Wait()
}

// coldStart is the time from the start of the process to its first answer, which it
// returns too.
func coldStart(ctx context.Context, f function, event []byte) (time.Duration, []byte, error) {
	r, err := newRuntimeAPI() // a process that is gone may still ask the one before
	if err != nil {
		return 0, nil, err
	}
	defer r.close()
	r.events <- event
	began := time.Now()
	process, err := r.start(ctx, f)
	if err != nil {
		return 0, nil, err
	}
	defer stop(process)
	return r.wait(began)
}
