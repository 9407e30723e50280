//go:build unix

package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tidegate/local/lambda"
)

// Function is a built function to measure.
type Function struct {
	Name, Binary string
	Env          map[string]string
	Valid        func(answer []byte) error // nil if any answer is valid
}

// ErrAnswer means that a function returned an error, an invalid answer or none.
var ErrAnswer = errors.New("no valid answer of the function")

// functionTimeout bounds the start of a function and each of its answers.
const functionTimeout = time.Minute

// Environment is one environment of a function, with one invocation at a time. It is not
// frozen between invocations. Its process starts with the first invocation.
type Environment struct {
	function Function
	lambda   *lambda.Function
	log      *lastLines
	reports  chan lambda.Report
}

// Open prepares an environment. Close ends it.
func Open(f Function) (*Environment, error) {
	e := &Environment{function: f, log: &lastLines{}, reports: make(chan lambda.Report, 1)}
	var err error
	e.lambda, err = lambda.Start(lambda.Config{Name: f.Name, Binary: f.Binary, Env: f.Env,
		Timeout: functionTimeout, InitTimeout: functionTimeout, NoFreeze: true, Log: e.log,
		Report: e.keep})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Close ends the function.
func (e *Environment) Close() { e.lambda.Close() }

// Invoke sends the function an event. It returns the answer, and a report as soon as the
// function waits for the next event.
func (e *Environment) Invoke(ctx context.Context, event []byte) (lambda.Report, []byte, error) {
	began := time.Now()
	answer, err := e.lambda.Invoke(ctx, event)
	if err != nil {
		return lambda.Report{}, nil, fmt.Errorf("%w: %s: %w\n%s", ErrAnswer, e.function.Name, err, e.log)
	}
	if e.function.Valid != nil {
		if err := e.function.Valid(answer); err != nil {
			return lambda.Report{}, nil, fmt.Errorf("%w: %s: %w: %.300s", ErrAnswer, e.function.Name, err,
				answer)
		}
	}
	for {
		select {
		case r := <-e.reports:
			if r.Delivered.After(began) { // not that of an invocation that failed
				return r, answer, nil
			}
		case <-ctx.Done():
			return lambda.Report{}, nil, ctx.Err()
		}
	}
}

// keep replaces a report that nobody has read, since invocations that fail leave theirs.
func (e *Environment) keep(r lambda.Report) {
	select {
	case <-e.reports:
	default:
	}
	e.reports <- r
}

// Took returns the time from the delivery of an event to the answer.
func Took(r lambda.Report) time.Duration { return r.Answered.Sub(r.Delivered) }

// Environments are environments of functions that run at the same time.
type Environments []*Environment

// OpenAll prepares environments. After an error it closes those that it has opened.
func OpenAll(functions ...Function) (Environments, error) {
	var all Environments
	for _, f := range functions {
		e, err := Open(f)
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

// coldStart returns the time from the start of a process to its first answer.
func coldStart(ctx context.Context, f Function, event []byte) (time.Duration, error) {
	e, err := Open(f)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	r, _, err := e.Invoke(ctx, event)
	return r.Answered.Sub(r.Started), err
}

// ColdStarts makes n cold starts of each function. The functions and the events take
// turns. It returns the times of each function.
func ColdStarts(ctx context.Context, n int, events [][]byte, functions ...Function) ([][]time.Duration,
	error) {
	times := make([][]time.Duration, len(functions))
	for turn := range n {
		for i, f := range functions {
			took, err := coldStart(ctx, f, events[turn%len(events)])
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], took)
		}
	}
	return times, nil
}

// lastLines keeps the end of a log, for errors.
type lastLines struct {
	lock sync.Mutex
	text []byte
}

const maxLog = 4 << 10

func (l *lastLines) Write(p []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-maxLog):]
	return len(p), nil
}

func (l *lastLines) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return string(l.text)
}
