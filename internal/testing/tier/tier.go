// Package tier keeps tests out of tier 1, which ./scripts/test runs with -short, and sets
// how many random histories a test plays. Only tests import it.
package tier

import "testing"

// Two skips a test in tier 1, since it belongs to tier 2, which ./scripts/test -all runs.
// why says what the test takes or needs.
func Two(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("tier 2, ./scripts/test -all: " + why)
	}
}
