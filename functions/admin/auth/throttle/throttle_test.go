package throttle

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"tidegate/internal/testing/storetest"
)

// fixture is a throttle on a server with a clock that the test sets.
type fixture struct {
	*Throttle
	t      *testing.T
	server *miniredis.Miniredis
	now    time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	server := miniredis.RunT(t)
	client := storetest.Connect(t, "valkey://"+server.Addr())
	throttle := New(client)
	f := &fixture{Throttle: throttle, t: t, server: server}
	f.setTime(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
	return f
}

func (f *fixture) setTime(now time.Time) {
	f.now = now
	f.server.SetTime(now)
}

func (f *fixture) pass(d time.Duration) { f.setTime(f.now.Add(d)) }

func (f *fixture) take(remote, account string) Attempt {
	f.t.Helper()
	a, err := f.Take(f.t.Context(), remote, account)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

func (f *fixture) wants(remote, account string, allowed bool) {
	f.t.Helper()
	if a := f.take(remote, account); a.Allowed != allowed {
		f.t.Fatalf("%s for %s: got allowed %v, want %v", remote, account, a.Allowed, allowed)
	}
}

// After five attempts a minute at one account, RetryAfter is exact: the next attempt is
// denied a millisecond before it, and allowed at it.
func TestRetryAfterIsExact(t *testing.T) {
	f := newFixture(t)
	for range 5 {
		f.wants("192.0.2.1", "ada", true)
		f.pass(7 * time.Second)
	}
	a := f.take("192.0.2.1", "ada")
	if a.Allowed || a.RetryAfter != 25*time.Second {
		t.Fatalf("got %+v, want a wait of 25 s", a)
	}
	f.pass(a.RetryAfter - time.Millisecond)
	f.wants("192.0.2.1", "ada", false)
	f.pass(time.Millisecond)
	f.wants("192.0.2.1", "ada", true)
	f.wants("192.0.2.1", "ada", false)
}

// Attempts from one address do not lock the account for other addresses.
func TestAccountIsNotLocked(t *testing.T) {
	f := newFixture(t)
	for range 200 {
		f.take("192.0.2.1", "ada")
	}
	f.wants("192.0.2.1", "ada", false)
	f.wants("192.0.2.2", "ada", true)
	f.wants("2001:db8:1::1", "ada", true)
}

// One address that tries many accounts is denied too, with the longer of the two waits.
func TestManyAccounts(t *testing.T) {
	f := newFixture(t)
	f.wants("192.0.2.1", "ada", true)
	f.pass(30 * time.Second)
	for i := range 19 {
		f.wants("192.0.2.1:1234", strings.Repeat("n", i), true)
	}
	for range 4 {
		f.take("192.0.2.1", "bob") // not counted: the source is over its limit
	}
	a := f.take("192.0.2.1", "bob")
	if a.Allowed || a.RetryAfter != 30*time.Second {
		t.Fatalf("got %+v, want a wait of 30 s", a)
	}
	f.pass(a.RetryAfter)
	f.wants("192.0.2.1", "bob", true)
}

// An attempt that is denied for its account does not count against the source.
func TestDeniedCostsNothing(t *testing.T) {
	f := newFixture(t)
	for range 5 {
		f.wants("192.0.2.1", "ada", true)
	}
	for range 50 {
		f.wants("192.0.2.1", "ada", false)
	}
	for range 3 {
		for _, account := range []string{"b", "c", "d", "e", "f"} {
			f.wants("192.0.2.1", account, true)
		}
	}
	f.wants("192.0.2.1", "g", false)
}

// Attempts with the right password do not count.
func TestForgiven(t *testing.T) {
	f := newFixture(t)
	for range 50 {
		a := f.take("192.0.2.1", "ada")
		if !a.Allowed {
			t.Fatal("attempts with the right password count")
		}
		if err := f.Forgive(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
}

// The addresses of one site are one source, and so are all unreadable addresses.
func TestSources(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.1:80": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"[::ffff:192.0.2.1]:1": "192.0.2.1",
		"2001:db8::1":          "2001:db8::/64", "[2001:db8::ffff:2]:443": "2001:db8::/64",
		"2001:db8:0:1::1": "2001:db8:0:1::/64",
		"fe80::1%eth0":    "fe80::/64", "": "unknown", "IP": "unknown", "192.0.2.1, 198.51.100.1": "unknown",
	} {
		if got := sourceOf(remote); got != want {
			t.Errorf("%q: got %q, want %q", remote, got, want)
		}
	}
}

// Valkey has no address and no name in plain text, and every key expires.
func TestStoredKeys(t *testing.T) {
	f := newFixture(t)
	f.wants("192.0.2.1", "ada-canary", true)
	if dump := f.server.Dump(); strings.Contains(dump, "192.0.2.1") || strings.Contains(dump, "canary") {
		t.Errorf("an address or a name is stored: %s", dump)
	}
	for _, key := range f.server.Keys() {
		if ttl := f.server.TTL(key); ttl <= 0 || ttl > 2*time.Hour+time.Second {
			t.Errorf("%s: got a time to live of %v, want at most two hours", key, ttl)
		}
	}
}

// While Valkey is unavailable, no attempt is allowed.
func TestStoreUnavailable(t *testing.T) {
	f := newFixture(t)
	f.server.SetError("ERR out of order")
	if a, err := f.Take(t.Context(), "192.0.2.1", "ada"); err == nil || a.Allowed {
		t.Errorf("got %+v, %v, want an error", a, err)
	}
}
