//go:build unix

// Package process runs child processes that end with this program. Each is the
// leader of its own process group, so that a signal reaches whatever it started too, and
// so that Ctrl-C in a terminal reaches this program alone.
package process

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// pipeGrace bounds the wait for output pipes that a grandchild may still hold open after
// the child's end.
const pipeGrace = time.Second

// Process is a running or finished child. Its methods are safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts cmd, whose SysProcAttr and WaitDelay it sets. On Linux the child dies with
// this program however that ends; elsewhere it gets SIGHUP if it is frozen at that
// moment, because its process group is then orphaned, and is on its own otherwise.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = attributes()
	cmd.WaitDelay = pipeGrace
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run keeps its thread for the whole life of the child: Linux sends the parent-death
// signal when the thread that forked ends.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// PID returns the process id of the child.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended and all its output was copied.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the child ended: nil for exit status 0. It may be called only after Done
// is closed.
func (p *Process) Err() error { return p.err }

// Freeze stops the child and its group until Thaw.
func (p *Process) Freeze() { p.signal(syscall.SIGSTOP) }

// Thaw continues a frozen child.
func (p *Process) Thaw() { p.signal(syscall.SIGCONT) }

// Terminate asks a child, frozen or not, to end, and waits until it has, or for the time
// given.
func (p *Process) Terminate(wait time.Duration) {
	p.signal(syscall.SIGTERM)
	p.Thaw()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	}
}

// Kill ends the child and its group at once, frozen or not, and waits until it is gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal ignores errors: the only one possible is that the group is gone already.
func (p *Process) signal(s syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.PID(), s)
	}
}
