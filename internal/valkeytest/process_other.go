//go:build !linux

package valkeytest

import "syscall"

// dieWithParent has no equivalent here: a server outlives a test process that is killed.
func dieWithParent() *syscall.SysProcAttr { return nil }
