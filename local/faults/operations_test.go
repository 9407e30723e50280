//go:build unix

package faults

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/store/acl"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/waiting"
)

// every calls harm repeatedly, with a pause after each call, until total has passed.
func every(t *testing.T, pause, total time.Duration, harm func()) {
	t.Helper()
	for began := time.Now(); time.Since(began) < total; {
		harm()
		during(t, pause)
	}
}

// No call fails while slots move to another shard with all their keys.
func TestResharding(t *testing.T) {
	skipUnlessFaults(t)
	const limit = 60
	w := cluster(t)
	w.plans(t, fmt.Sprint(limit, " per hour"))
	f := startFleet(t, w.url, fleetOptions{environments: 4, timeout: calm})
	callers := w.callers(t, 30, "closed")
	l := &load{fleet: f, callers: callers, rate: 400, workers: 4}
	l.begin(t)
	const moved = 20 // callers whose slot moves, some of them before their first call
	byOwner := map[*server][]string{}
	for _, c := range callers[:moved] {
		key := keyspace.BucketOf(c.key.ID).Records()
		owner, _ := ownerOf(t, w, key)
		byOwner[owner] = append(byOwner[owner], key)
	}
	for _, keys := range byOwner {
		for _, key := range keys {
			moveSlot(t, w, key)
		}
		agreed(t, w)
	}
	during(t, 2*time.Second)
	outcomes := l.end()
	all := tallyOf(outcomes)
	all.requireUndegraded(t)
	linearizable(t, outcomes, len(callers), limit)
	report(t, "resharding", "0 errors",
		fmt.Sprintf("%d slots moved under load: %s; linearizable", moved, all))
}

// moveSlot moves the slot of a key from its primary to the next primary.
func moveSlot(t *testing.T, w *world, key string) {
	t.Helper()
	number, err := w.admin.Do(t.Context(), w.admin.B().ClusterKeyslot().Key(key).Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	slot := strconv.FormatInt(number, 10)
	from, to := ownerOf(t, w, key)
	fromID, toID := from.ask(t, "CLUSTER", "MYID"), to.ask(t, "CLUSTER", "MYID")
	to.ask(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.ask(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	for {
		names, err := from.client.Do(t.Context(),
			from.client.B().Arbitrary("CLUSTER", "GETKEYSINSLOT", slot, "10").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		if len(names) == 0 {
			break
		}
		from.ask(t, append([]string{"MIGRATE", "127.0.0.1", to.port(), "", "0", "5000", "KEYS"}, names...)...)
	}
	for _, s := range append([]*server{to, from}, w.servers[:shards]...) {
		s.ask(t, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
}

// agreed waits until all primaries know the same configuration epoch. Otherwise two
// primaries that get slots at the same time may claim the same epoch, and one of them may
// lose its slots again.
func agreed(t *testing.T, w *world) {
	t.Helper()
	waiting.Until(t, "the primaries to agree on the epoch", func() bool {
		epochs := map[string]bool{}
		for _, s := range w.servers[:shards] {
			_, rest, _ := strings.Cut(s.ask(t, "CLUSTER", "INFO"), "cluster_current_epoch:")
			epoch, _, _ := strings.Cut(rest, "\r\n")
			epochs[epoch] = true
		}
		return len(epochs) == 1
	})
}

// ownerOf returns the primary that has a key's slot, and the next primary.
func ownerOf(t *testing.T, w *world, key string) (owner, other *server) {
	t.Helper()
	for i, s := range w.servers[:shards] {
		if _, err := s.try(t.Context(), "TYPE", key); err == nil {
			return s, w.servers[(i+1)%shards]
		}
	}
	t.Fatalf("no primary serves key %s", key)
	return nil, nil
}

// connections returns the number of the server's client connections.
func connections(t *testing.T, s *server) int {
	t.Helper()
	return strings.Count(s.ask(t, "CLIENT", "LIST", "TYPE", "normal"), "id=")
}

func TestScriptFlushAndSleep(t *testing.T) {
	skipUnlessFaults(t)
	const limit = 120
	w := single(t)
	w.plans(t, fmt.Sprint(limit, " per hour"))
	f := startFleet(t, w.url, fleetOptions{environments: 4, timeout: calm})
	callers := w.callers(t, 20, "closed")
	before := connections(t, w.servers[0])
	l := &load{fleet: f, callers: callers, rate: 500, workers: 4}
	l.begin(t)
	flushes := 0
	every(t, 50*time.Millisecond, 5*time.Second, func() {
		w.servers[0].ask(t, "SCRIPT", "FLUSH")
		w.servers[0].ask(t, "DEBUG", "SLEEP", "0.05")
		flushes++
	})
	outcomes := l.end()
	all := tallyOf(outcomes)
	all.requireUndegraded(t)
	linearizable(t, outcomes, len(callers), limit)
	after := connections(t, w.servers[0])
	if after > before+4 {
		t.Errorf("got %d connections after the load, want at most %d", after, before+4)
	}
	report(t, "SCRIPT FLUSH, DEBUG SLEEP", "0 errors, no stuck connections", fmt.Sprintf(
		"%d of each: %s; connections %d before, %d after; linearizable", flushes, all, before, after))
}

// No call fails while an operator rotates the check user's password: the new password is
// added, the function gets it, and the old password is removed.
func TestCredentialRotation(t *testing.T) {
	skipUnlessFaults(t)
	w, c := oneServer(t)
	s := w.servers[0]
	s.ask(t, append([]string{"ACL", "SETUSER", "check", ">old-password"}, acl.Rules(acl.Check())...)...)
	as := func(password string) string { return strings.Replace(w.url, "://", "://check:"+password+"@", 1) }
	total := tally{}
	calls := func(f *fleet) {
		for range 100 {
			o := f.call(t.Context(), c.secret.Reveal())
			if total.calls++; !o.counted() {
				total.failed++
			}
		}
	}
	old := startFleet(t, as("old-password"), fleetOptions{environments: 1, timeout: calm})
	calls(old)
	s.ask(t, "ACL", "SETUSER", "check", ">new-password")
	s.ask(t, "CLIENT", "KILL", "USER", "check")
	calls(old)
	renewed := startFleet(t, as("new-password"), fleetOptions{environments: 1, timeout: calm})
	calls(renewed)
	s.ask(t, "ACL", "SETUSER", "check", "<old-password")
	s.ask(t, "CLIENT", "KILL", "USER", "check")
	calls(renewed)
	total.requireAnswered(t)
	late := old.call(t.Context(), c.secret.Reveal())
	if !late.degraded || late.status == 500 {
		t.Errorf("call with a removed password: got %+v, want it degraded and no 500", late)
	}
	report(t, "credential expiry", "0 errors", fmt.Sprintf(
		"password rotated and connections killed: %d of %d calls failed; with the old one still in use: "+
			"degraded, no 5xx", total.failed, total.calls))
}

// No test here steps the server's clock back, since that would change the clock of the
// whole machine; package limiter tests it. TestClientClock in functions/check shows that
// requests do not depend on the function's clock.

// A check after an edit of a limit obeys the new limit, and no window admits more calls
// than the higher of both limits.
func TestEditMidWindow(t *testing.T) {
	skipUnlessFaults(t)
	const low, high, edits = 20, 60, 12
	const window = 2 * time.Second
	words := func(n int) string { return fmt.Sprint(n, " per 2 seconds") }
	w := cluster(t)
	w.plans(t, words(low))
	f := startFleet(t, w.url, fleetOptions{environments: 4, timeout: calm,
		env: map[string]string{"DENY_CACHE": "0s"}})
	callers := w.callers(t, 4, "closed")
	l := &load{fleet: f, callers: callers, rate: 400, workers: 4}
	l.begin(t)
	type period struct {
		from, to time.Duration // only this limit was in force between them
		limit    int
	}
	var periods []period
	inForce, since := low, time.Duration(0)
	for i := range edits {
		during(t, 700*time.Millisecond)
		until := l.now()
		periods = append(periods, period{since, until, inForce})
		inForce = []int{high, low}[i%2]
		w.save(t, func(s *policy.Set) {
			for p := range s.Plans {
				s.Plans[p].Limits = registrytest.Limits(words(inForce))
			}
		})
		since = l.now()
	}
	outcomes := l.end()
	all := tallyOf(outcomes)
	all.requireUndegraded(t)
	most := bounded(t, outcomes, len(callers), high, window)
	checks := 0
	for _, o := range outcomes {
		for _, p := range periods {
			if o.start < p.from || o.end > p.to {
				continue
			}
			if checks++; o.remaining >= int64(p.limit) {
				t.Errorf("check with limit %d: got %d remaining calls, want fewer", p.limit, o.remaining)
			}
		}
	}
	report(t, "limit edited mid-window", "the next check obeys; never above max(old, new)", fmt.Sprintf(
		"%d edits between %d and %d per 2 s: %s; all %d checks between edits obey; at most %d admitted",
		edits, low, high, all, checks, most))
}

// integer returns a number from a reply to INFO.
func integer(t *testing.T, info, name string) int {
	t.Helper()
	_, rest, found := strings.Cut(info, name+":")
	if !found {
		t.Fatalf("INFO has no %s", name)
	}
	line, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
