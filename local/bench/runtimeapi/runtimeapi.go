//go:build unix

// Package runtimeapi starts built functions and invokes them through Lambda's Runtime
// API, for benchmarks. It does little work itself, so that it does not distort
// measurements.
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

// Function is a program that gets its events from the Runtime API.
type Function struct {
	Name    string
	Command []string
	Env     []string
	Valid   func(answer []byte) error // nil if any answer is valid
}

// ErrAnswer means that a function returned an error, an invalid answer or none.
var ErrAnswer = errors.New("no valid answer of the function")

// Environment is a running function with the part of Lambda's Runtime API that it needs.
type Environment struct {
	function Function
	process  *exec.Cmd
	server   *http.Server
	addr     string
	events   chan []byte
	sent     chan time.Time // when the function got an event
	answers  chan answer

	lock       sync.Mutex
	lastAnswer time.Time       // when the last answer arrived
	afterwards []time.Duration // from each answer to the function's next request for an event
}

// answer is an answer of the function and the time of its arrival.
type answer struct {
	at     time.Time
	body   []byte
	failed bool
}

// Start starts a function. Close ends it.
func Start(ctx context.Context, f Function) (*Environment, error) {
	e, err := serve(f)
	if err != nil {
		return nil, err
	}
	if err := e.start(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// Environments are functions that run at the same time.
type Environments []*Environment

// StartAll starts functions. After an error it closes those that it has started.
func StartAll(ctx context.Context, functions ...Function) (Environments, error) {
	var all Environments
	for _, f := range functions {
		e, err := Start(ctx, f)
		if err != nil {
			all.Close()
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// Close ends all functions.
func (all Environments) Close() {
	for _, e := range all {
		e.Close()
	}
}

// ColdStart returns the time from the start of a process to its first answer, and that
// answer.
func ColdStart(ctx context.Context, f Function, event []byte) (time.Duration, []byte, error) {
	e, err := serve(f)
	if err != nil {
		return 0, nil, err
	}
	e.events <- event
	began := time.Now()
	if err := e.start(ctx); err != nil {
		return 0, nil, err
	}
	defer e.Close()
	took, body, err := e.wait(began)
	if err != nil {
		return 0, nil, fmt.Errorf("cold start of %s: %w", f.Name, err)
	}
	return took, body, nil
}

// ColdStarts makes n cold starts of each function. The functions and the events take
// turns. It returns the times of each function.
func ColdStarts(ctx context.Context, n int, events [][]byte, functions ...Function) ([][]time.Duration,
	error) {
	times := make([][]time.Duration, len(functions))
	for turn := range n {
		for i, f := range functions {
			took, _, err := ColdStart(ctx, f, events[turn%len(events)])
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], took)
		}
	}
	return times, nil
}

// serve serves the API of a function on a free port.
func serve(f Function) (*Environment, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("runtime API: %w", err)
	}
	e := &Environment{function: f, addr: listener.Addr().String(), events: make(chan []byte, 1),
		sent: make(chan time.Time, 1), answers: make(chan answer, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", e.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response",
		func(w http.ResponseWriter, q *http.Request) { e.answer(w, q, false) })
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error",
		func(w http.ResponseWriter, q *http.Request) { e.answer(w, q, true) })
	mux.HandleFunc("POST /2020-01-01/extension/register", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Lambda-Extension-Identifier", "1")
		_, _ = io.WriteString(w, "{}")
	})
	mux.HandleFunc("GET /2020-01-01/extension/event/next", func(_ http.ResponseWriter, q *http.Request) {
		<-q.Context().Done()
	})
	e.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = e.server.Serve(listener) }()
	return e, nil
}

// Close ends the function and its API.
func (e *Environment) Close() {
	_ = e.process.Process.Kill()
	_ = e.process.Wait()
	_ = e.server.Close()
}

// PID returns the process id of the function.
func (e *Environment) PID() int { return e.process.Process.Pid }

func (e *Environment) next(w http.ResponseWriter, q *http.Request) {
	e.lock.Lock()
	if !e.lastAnswer.IsZero() {
		e.afterwards = append(e.afterwards, time.Since(e.lastAnswer))
	}
	e.lock.Unlock()
	select {
	case event := <-e.events:
		h := w.Header()
		h.Set("Lambda-Runtime-Aws-Request-Id", "1")
		h.Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()))
		h.Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:123456789012:function:check")
		h.Set("Content-Type", "application/json")
		e.sent <- time.Now()
		_, _ = w.Write(event)
	case <-q.Context().Done():
	}
}

func (e *Environment) answer(w http.ResponseWriter, q *http.Request, failed bool) {
	at := time.Now()
	body, _ := io.ReadAll(q.Body)
	e.lock.Lock()
	e.lastAnswer = at
	e.lock.Unlock()
	w.WriteHeader(http.StatusAccepted)
	e.answers <- answer{at, body, failed}
}

// Invoke sends the function an event. It returns the time until the answer, and the
// answer.
func (e *Environment) Invoke(event []byte) (time.Duration, []byte, error) {
	e.events <- event
	select {
	case sent := <-e.sent:
		return e.wait(sent)
	case <-time.After(time.Minute):
		return 0, nil, fmt.Errorf("%w: it did not request an event within a minute", ErrAnswer)
	}
}

// wait waits for the answer, at most a minute. It returns the time from since to the
// answer, and the answer.
func (e *Environment) wait(since time.Time) (time.Duration, []byte, error) {
	select {
	case a := <-e.answers:
		if a.failed {
			return 0, nil, fmt.Errorf("%w: %s", ErrAnswer, a.body)
		}
		if e.function.Valid != nil {
			if err := e.function.Valid(a.body); err != nil {
				return 0, nil, fmt.Errorf("%w: %w: %.300s", ErrAnswer, err, a.body)
			}
		}
		return a.at.Sub(since), a.body, nil
	case <-time.After(time.Minute):
		return 0, nil, fmt.Errorf("%w: no answer within a minute", ErrAnswer)
	}
}

// TimesAfterAnswers returns how long the function continued to work after each of its
// answers, except the last.
func (e *Environment) TimesAfterAnswers() []time.Duration {
	e.lock.Lock()
	defer e.lock.Unlock()
	return slices.Clone(e.afterwards)
}

// start starts the process. After an error the API is closed.
func (e *Environment) start(ctx context.Context) error {
	f := e.function
	e.process = exec.CommandContext(ctx, f.Command[0], f.Command[1:]...)
	lambda := []string{"AWS_LAMBDA_RUNTIME_API=" + e.addr, "AWS_LAMBDA_FUNCTION_NAME=" + f.Name,
		"AWS_REGION=us-east-1", "_HANDLER=bootstrap"}
	e.process.Env = slices.Concat(lambda, f.Env)
	e.process.Stderr = os.Stderr
	if err := e.process.Start(); err != nil {
		_ = e.server.Close()
		return fmt.Errorf("start %s: %w", f.Name, err)
	}
	return nil
}
