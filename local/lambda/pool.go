//go:build unix

package lambda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// nextGrace is how long an invocation waits for an environment that has answered but not
// yet asked for the next invocation. Without it, a caller that invokes again at once
// would start a second environment each time.
const nextGrace = 50 * time.Millisecond

// grant is an environment, which then belongs to the receiver, or an error.
type grant struct {
	env *environment
	err error
}

// warm starts the configured number of environments and waits for them.
func (f *Function) warm() error {
	errs := make(chan error, f.config.Warm)
	f.lock.Lock()
	for range f.config.Warm {
		f.startOne(func(err error) { errs <- err })
	}
	f.lock.Unlock()
	var failed error
	for range f.config.Warm {
		failed = errors.Join(failed, <-errs)
	}
	return failed
}

// acquire returns an idle environment, or waits for one that starts or has answered. It
// starts another one if the concurrency allows.
func (f *Function) acquire(ctx context.Context) (*environment, error) {
	f.lock.Lock()
	if f.isClosed() {
		f.lock.Unlock()
		return nil, ErrClosed
	}
	if env := f.popIdle(); env != nil {
		f.tasks.Add(1)
		f.lock.Unlock()
		return env, nil
	}
	w := make(chan grant, 1)
	f.waiters = append(f.waiters, w)
	f.scale(len(f.answering))
	f.lock.Unlock()
	return f.await(ctx, w)
}

func (f *Function) await(ctx context.Context, w chan grant) (*environment, error) {
	late := time.AfterFunc(nextGrace, f.scaleLate)
	defer late.Stop()
	select {
	case g := <-w:
		return g.env, g.err
	case <-ctx.Done():
		f.abandon(w)
		return nil, fmt.Errorf("waiting for an environment of function %s: %w", f.config.Name, ctx.Err())
	}
}

// abandon removes a waiter, and releases the environment that it may have got in the
// meantime.
func (f *Function) abandon(w chan grant) {
	f.lock.Lock()
	if i := slices.Index(f.waiters, w); i >= 0 {
		f.waiters = slices.Delete(f.waiters, i, i+1)
		f.lock.Unlock()
		return
	}
	f.lock.Unlock()
	if g := <-w; g.env != nil {
		defer f.tasks.Done()
		f.release(g.env)
	}
}

// popIdle returns the most recently used environment, as Lambda does, or nil. It removes
// dead environments.
func (f *Function) popIdle() *environment {
	for len(f.idle) > 0 {
		last := len(f.idle) - 1
		env := f.idle[last]
		f.idle = f.idle[:last]
		if !env.dead() {
			return env
		}
		f.tasks.Go(func() { f.remove(env) })
	}
	return nil
}

// release gives an environment to the invocation that waited longest, or makes it idle.
// The caller holds one count of f.tasks, so that Close waits for it.
func (f *Function) release(env *environment) {
	f.lock.Lock()
	defer f.lock.Unlock()
	delete(f.answering, env) // under the same lock, so that Close always ends it with SIGTERM
	switch {
	case f.isClosed():
		f.tasks.Go(func() { f.remove(env) })
	case len(f.waiters) > 0:
		f.tasks.Add(1)
		f.grant(grant{env: env})
	default:
		f.idle = append(f.idle, env)
		f.retireLater(env)
	}
}

// retireLater ends an idle environment after Config.Idle. The lock is held.
func (f *Function) retireLater(env *environment) {
	env.idleSince = time.Now()
	switch {
	case f.config.Idle == 0:
	case env.idle == nil:
		env.idle = time.AfterFunc(f.config.Idle, func() { f.retire(env) })
	default:
		env.idle.Reset(f.config.Idle)
	}
}

// retire ends an environment if it has been idle long enough. The environment may have
// been used again after the timer fired.
func (f *Function) retire(env *environment) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if i := slices.Index(f.idle, env); i >= 0 && time.Since(env.idleSince) >= f.config.Idle {
		f.idle = slices.Delete(f.idle, i, i+1)
		f.tasks.Go(func() { f.remove(env) })
	}
}

func (f *Function) grant(g grant) {
	f.waiters[0] <- g
	f.waiters = f.waiters[1:]
}

// remove ends an environment and starts another if one is needed. The caller holds one
// count of f.tasks, so that Close waits for it.
func (f *Function) remove(env *environment) {
	f.lock.Lock()
	delete(f.answering, env)
	f.lock.Unlock()
	env.close()
	f.lock.Lock()
	defer f.lock.Unlock()
	delete(f.all, env)
	f.count--
	f.scale(len(f.answering))
}

// scale starts an environment for every waiter, up to the concurrency. It leaves out
// waiters that starting environments will serve, and soon more. The lock is held.
func (f *Function) scale(soon int) {
	for len(f.waiters) > f.starting+soon && f.count < f.config.Concurrency {
		f.startOne(func(error) {})
	}
}

// scaleLate starts environments for waiters that environments in f.answering have kept
// waiting for nextGrace.
func (f *Function) scaleLate() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.scale(0)
}

// startOne starts an environment in the background. The lock is held.
func (f *Function) startOne(report func(error)) {
	f.count++
	f.starting++
	f.tasks.Go(func() {
		env, err := f.open()
		f.lock.Lock()
		f.starting--
		if err != nil {
			f.startFailed(err)
		}
		f.lock.Unlock()
		if err == nil {
			f.release(env)
		}
		report(err)
	})
}

// startFailed gives the error to one waiter; the others get their own attempts. The lock
// is held.
func (f *Function) startFailed(err error) {
	f.count--
	if len(f.waiters) > 0 {
		f.grant(grant{err: err})
	}
	f.scale(len(f.answering))
}

// open starts an environment and waits until it is ready.
func (f *Function) open() (*environment, error) {
	env, err := spawn(f.config, &f.logLock, f.answered)
	if err != nil {
		return nil, &InitError{Err: err}
	}
	f.lock.Lock()
	if f.isClosed() {
		f.lock.Unlock()
		env.close()
		return nil, ErrClosed
	}
	f.all[env] = struct{}{}
	f.lock.Unlock()
	if err := env.initialise(); err != nil {
		env.close()
		f.lock.Lock()
		delete(f.all, env)
		f.lock.Unlock()
		return nil, f.orClosed(err)
	}
	return env, nil
}

func (f *Function) answered(env *environment) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.answering[env] = struct{}{}
}
