//go:build unix

package lambda

// Idle reports whether an environment waits for an invocation.
func (f *Function) Idle() bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	return len(f.idle) > 0
}

// Waiting reports whether an invocation waits for an environment.
func (f *Function) Waiting() bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	return len(f.waiters) > 0
}

// IdleDead reports whether the environment that waits for an invocation has died.
func (f *Function) IdleDead() bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	return len(f.idle) > 0 && f.idle[0].dead()
}
