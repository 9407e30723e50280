// Package waiting waits in tests until a condition holds, so that no test depends on the
// speed of the machine, and collects what goroutines write meanwhile. Only tests import it.
package waiting

import (
	"fmt"
	"testing"
	"time"
)

// Timeout bounds every wait.
const Timeout = time.Minute

// Until waits until holds returns true, and fails the test after Timeout. Between two
// attempts it waits as long as an attempt takes, up to 1 s, so that slow attempts leave
// half of the machine to the work. If an attempt itself does not end, Until ends the test
// program, which prints what every goroutine does.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	hangs := time.AfterFunc(2*Timeout, func() {
		panic(fmt.Sprintf("%s: one attempt did not end within %s, waiting until %s", t.Name(), Timeout, what))
	})
	defer hangs.Stop()
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

// For returns the next value from a channel, or the zero value once it is closed. It fails
// the test after Timeout.
func For[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	deadline := time.NewTimer(Timeout)
	defer deadline.Stop()
	select {
	case value := <-from:
		return value
	case <-deadline.C:
		t.Fatalf("waited %s for %s", Timeout, what)
		panic("unreachable")
	}
}
