// Package waiting waits in tests until a condition holds, so that no test depends on the
// speed of the machine. Only tests import it.
package waiting

import (
	"testing"
	"time"
)

// Timeout bounds every wait.
const Timeout = time.Minute

// Until waits until holds returns true, and fails the test after Timeout. Between two
// attempts it waits as long as an attempt takes, up to 1 s, so that slow attempts leave
// half of the machine to the work.
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
			t.Fatalf("waited %s until %s", Timeout, what)
		}
	}
}
