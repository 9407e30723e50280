//go:build unix

// Package process runs child processes that end with this program. Each child leads its
// own process group. So a signal reaches the child's children too, and Ctrl-C in a
// terminal reaches only this program.
package process

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// pipeGrace is how long to wait for output pipes that a grandchild may hold open after
// the child's end.
const pipeGrace = time.Second

// Process is a running or finished child. Its methods are safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts cmd and sets its SysProcAttr and WaitDelay. On Linux the child dies with
// this program in every case. Elsewhere a frozen child then gets SIGHUP, because its
// process group is orphaned, and a running child continues.
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

// run keeps its thread until the child ends, since Linux sends the parent-death signal
// when the thread that forked ends.
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

// Err returns how the child ended: nil for exit status 0. It may be called only after
// Done is closed.
func (p *Process) Err() error { return p.err }

// Freeze stops the child and its group until Thaw.
func (p *Process) Freeze() { p.signal(syscall.SIGSTOP) }

// Thaw continues a frozen child.
func (p *Process) Thaw() { p.signal(syscall.SIGCONT) }

// Terminate sends SIGTERM to a child, frozen or not, and waits for its end for at most
// the given time.
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

// Kill kills the child and its group, frozen or not, and waits for the end.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal ignores errors, since the only possible one is that the group has ended.
func (p *Process) signal(s syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.PID(), s)
	}
}
