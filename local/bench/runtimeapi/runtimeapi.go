//go:build unix

// Package runtimeapi starts built functions and hands them events, for benchmarks. It
// does little work itself, so that measurements are of the function.
package runtimeapi

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

// API is the part of Lambda's Runtime API that one process needs.
type API struct {
	server *http.Server
	addr   string
	events chan []byte
	given  chan time.Time
	done   chan answered

	lock sync.Mutex
	last time.Time       // when the last answer arrived
	held []time.Duration // from each answer until the function asked for the next event
}

// answered is an answer of the function, and when it arrived.
type answered struct {
	at     time.Time
	body   []byte
	failed bool
}

// New serves the API on a free port.
func New() (*API, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("runtime API: %w", err)
	}
	r := &API{addr: listener.Addr().String(), events: make(chan []byte, 1),
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

// Close ends the server.
func (r *API) Close() { _ = r.server.Close() }

func (r *API) next(w http.ResponseWriter, q *http.Request) {
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

func (r *API) answer(w http.ResponseWriter, q *http.Request, failed bool) {
	at := time.Now()
	body, _ := io.ReadAll(q.Body)
	r.lock.Lock()
	r.last = at
	r.lock.Unlock()
	w.WriteHeader(http.StatusAccepted)
	r.done <- answered{at, body, failed}
}

// ErrAnswer means that a function failed instead of answering.
var ErrAnswer = errors.New("the function did not answer as it should")

// Invoke hands an event out and returns how long the answer took.
func (r *API) Invoke(event []byte) (time.Duration, []byte, error) {
	r.events <- event
	select {
	case given := <-r.given:
		return r.wait(given)
	case <-time.After(time.Minute):
		return 0, nil, fmt.Errorf("%w: it does not ask for events", ErrAnswer)
	}
}

func (r *API) wait(since time.Time) (time.Duration, []byte, error) {
	select {
	case a := <-r.done:
		if a.failed {
			return 0, nil, fmt.Errorf("%w: %s", ErrAnswer, a.body)
		}
		return a.at.Sub(since), a.body, nil
	case <-time.After(time.Minute):
		return 0, nil, fmt.Errorf("%w: no answer within a minute", ErrAnswer)
	}
}

// Held returns how long the function worked on after each of its answers except the last.
func (r *API) Held() []time.Duration {
	r.lock.Lock()
	defer r.lock.Unlock()
	return slices.Clone(r.held)
}

// Function is a program that asks the Runtime API for events.
type Function struct {
	Name    string
	Command []string
	Env     []string
}

// Start starts a function. Stop ends it.
func (r *API) Start(ctx context.Context, f Function) (*exec.Cmd, error) {
	process := exec.CommandContext(ctx, f.Command[0], f.Command[1:]...)
	lambda := []string{"AWS_LAMBDA_RUNTIME_API=" + r.addr, "AWS_LAMBDA_FUNCTION_NAME=" + f.Name,
		"AWS_REGION=us-east-1", "_HANDLER=bootstrap"}
	process.Env = slices.Concat(lambda, f.Env)
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", f.Name, err)
	}
	return process, nil
}

// Stop ends a function that Start started.
func Stop(process *exec.Cmd) {
	_ = process.Process.Kill()
	_ = process.Wait()
}

// ColdStart returns the time from the start of a process to its first answer, and that
// answer.
func ColdStart(ctx context.Context, f Function, event []byte) (time.Duration, []byte, error) {
	r, err := New() // a killed process may still have a request at an earlier API
	if err != nil {
		return 0, nil, err
	}
	defer r.Close()
	r.events <- event
	began := time.Now()
	process, err := r.Start(ctx, f)
	if err != nil {
		return 0, nil, err
	}
	defer Stop(process)
	return r.wait(began)
}
