package valkeytest

import "syscall"

// dieWithParent makes Linux kill the server when the test process ends.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
