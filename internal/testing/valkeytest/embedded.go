package valkeytest

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// Embedded starts miniredis, the store that the local gateway uses by default, and
// returns its URL. Its keys expire by the wall clock, as a server's do.
func Embedded(t testing.TB) string {
	t.Helper()
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	return "valkey://" + m.Addr()
}
