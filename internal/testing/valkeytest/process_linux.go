package valkeytest

import "syscall"

// dieWithParent leaves no server behind when the test process is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
