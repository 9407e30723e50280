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
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(Timeout)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("never: %s", what)
		}
	}
}
