//go:build unix

package bench

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"tidegate/local/lambda"
)

// Function is a built function to measure.
type Function struct {
	Name, Binary string
	Env          map[string]string
	Allowed      []byte // in every valid answer
}

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
		Report: func(r lambda.Report) { e.reports <- r }})
	return e, err
}

// Close ends the function.
func (e *Environment) Close() { e.lambda.Close() }

// Invoke sends the function an event. It returns the report as soon as the function waits
// for the next event. After an error the environment is of no more use.
func (e *Environment) Invoke(ctx context.Context, event []byte) (lambda.Report, error) {
	answer, err := e.lambda.Invoke(ctx, event)
	if err == nil && !bytes.Contains(answer, e.function.Allowed) {
		err = fmt.Errorf("answered %.300s", answer)
	}
	if err != nil {
		return lambda.Report{}, fmt.Errorf("%s: %w\n%s", e.function.Name, err, e.log)
	}
	select {
	case r := <-e.reports:
		return r, nil
	case <-ctx.Done():
		return lambda.Report{}, ctx.Err()
	}
}

// ColdStart returns the time from the start of a process to its first answer.
func ColdStart(ctx context.Context, f Function, event []byte) (time.Duration, error) {
	e, err := Open(f)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	r, err := e.Invoke(ctx, event)
	return r.Answered.Sub(r.Started), err
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
