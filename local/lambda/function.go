//go:build unix

// Package lambda runs a built Lambda function (a bootstrap binary) as Lambda does. Each
// environment is one process behind its own Runtime API and takes one invocation at a
// time. It is frozen between invocations, so that timers stop and connections age as they
// do on AWS. Invocations beyond the concurrency are throttled.
package lambda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Function is a function with its environments. Its methods are safe for concurrent use.
type Function struct {
	config  Config
	logLock sync.Mutex     // keeps the lines of all environments whole
	tasks   sync.WaitGroup // one for each environment in use
	closed  chan struct{}

	lock      sync.Mutex
	all       map[*environment]struct{}
	idle      []*environment            // most recently used last
	answering map[*environment]struct{} // answered, but has not asked for the next invocation
	starting  int
	count     int // all, including those without a process yet
	waiters   []chan grant
	running   int // unanswered invocations, those of waiters included
}

// Start checks the configuration and starts the warm environments.
func Start(c Config) (*Function, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("function %s: %w", c.Name, err)
	}
	f := &Function{
		config:    c,
		closed:    make(chan struct{}),
		all:       map[*environment]struct{}{},
		answering: map[*environment]struct{}{},
	}
	if err := f.warm(); err != nil {
		f.Close()
		return nil, fmt.Errorf("function %s: %w", c.Name, err)
	}
	return f, nil
}

// Invoke runs the function once. The context bounds only the caller's wait: an invocation
// that has started runs to its end, as on Lambda. Errors are *FunctionError,
// *TimeoutError, *CrashError, *InitError, *ResponseError, *PayloadError, ErrThrottled,
// ErrClosed, or the context's.
func (f *Function) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	if len(payload) > MaxPayload {
		return nil, &PayloadError{Size: len(payload)}
	}
	if err := f.begin(); err != nil {
		return nil, err
	}
	env, err := f.acquire(ctx)
	if err != nil {
		f.end()
		return nil, err
	}
	inv := newInvocation(payload, f.end)
	go f.run(env, inv)
	select {
	case out := <-inv.result:
		return out.payload, f.orClosed(out.err)
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for function %s: %w", f.config.Name, ctx.Err())
	}
}

// begin counts an invocation, unless as many as the concurrency are unanswered.
func (f *Function) begin() error {
	f.lock.Lock()
	defer f.lock.Unlock()
	switch {
	case f.isClosed():
		return ErrClosed
	case f.running == f.config.Concurrency:
		return ErrThrottled
	}
	f.running++
	return nil
}

// end ends the count of an invocation before its caller gets the answer, so that callers
// who invoke in turn are never throttled.
func (f *Function) end() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.running--
}

// Close ends every environment and returns when all processes have ended. Waiting and
// running invocations get ErrClosed.
func (f *Function) Close() {
	f.lock.Lock()
	if f.isClosed() {
		f.lock.Unlock()
		return
	}
	close(f.closed)
	for _, w := range f.waiters {
		w <- grant{err: ErrClosed}
	}
	f.waiters = nil
	for env := range f.all {
		switch _, answered := f.answering[env]; {
		case slices.Contains(f.idle, env):
			f.tasks.Go(func() { f.remove(env) })
		case answered:
			f.tasks.Go(env.end)
		default:
			f.tasks.Go(env.process.Kill)
		}
	}
	f.idle = nil
	f.lock.Unlock()
	f.tasks.Wait()
}

func (f *Function) isClosed() bool {
	select {
	case <-f.closed:
		return true
	default:
		return false
	}
}

// orClosed distinguishes a process that Close killed from one that crashed.
func (f *Function) orClosed(err error) error {
	var crash *CrashError
	if errors.As(err, &crash) && f.isClosed() {
		return ErrClosed
	}
	return err
}

// run runs inv in env, which the caller has acquired, and then releases or removes env.
func (f *Function) run(env *environment, inv *invocation) {
	defer f.tasks.Done()
	if env.run(inv) {
		f.release(env)
	} else {
		f.remove(env)
	}
}
