//go:build unix && !linux

package valkeytest

import "syscall"

// dieWithParent returns nil: only Linux can kill the server when the test process ends.
func dieWithParent() *syscall.SysProcAttr { return nil }
