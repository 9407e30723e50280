package main

import (
	"testing"
	"time"

	"tidegate/internal/store/acl"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// On a serverless cache every call is counted once: also while the node behind the address
// changes, and when all connections ended during a freeze. Clients do not storm it for its
// slots, and no command is refused.
func TestOnAServerlessCache(t *testing.T) {
	cache := valkeytest.StartServerless(t)
	user := valkeytest.As(t, cache.URL(), "check", acl.Rules(acl.Check()))
	e := newEnvironment(t, cache.URL(), user, waiting.Timeout)
	counted := int64(0)
	call := func(when string) {
		t.Helper()
		counted++
		if got, err := e.take(t); err != nil || got != counted {
			t.Errorf("%s: got %d calls counted, %v; want %d", when, got, err, counted)
		}
	}
	for range 3 {
		call("at first")
	}
	cache.Swap(2)
	call("while the node changes")
	call("after it changed")
	cache.Cut()
	e.freeze(20 * time.Minute)
	call("after a freeze")
	call("later")
	e.sendRecords()
	if refused := valkeytest.Refused(t, cache.URL()); len(refused) > 0 || len(cache.Refused()) > 0 {
		t.Errorf("got %q refused by the user's rights, and %q by the cache; want none", refused,
			cache.Refused())
	}
	if asked := cache.Asked(); asked > 20 {
		t.Errorf("clients asked %d times for the slots, want at most 20", asked)
	}
}
