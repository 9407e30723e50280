// Package waiting waits in tests for what must happen, however slow the machine: no test
// depends on how long it takes.
package waiting

import (
	"testing"
	"time"
)

// Timeout bounds every wait.
const Timeout = time.Minute

// Until returns when holds does, and fails the test when it does not within Timeout.
// Between two attempts it waits as long as an attempt takes, so that a slow one leaves
// the machine to what is waited for.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(Timeout)
	defer deadline.Stop()
	for {
		began := time.Now()
		if holds() {
			return
		}
		select {
		case <-time.After(min(max(time.Since(began), time.Millisecond), time.Second)):
		case <-deadline.C:
			t.Fatalf("never: %s", what)
		}
	}
}
