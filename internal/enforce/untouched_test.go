package enforce

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

// orders is a route with limits of its own on each caller.
func orders(cost int64, limits ...limiter.Limit) []policy.Route {
	return []policy.Route{{Name: "orders", Cost: cost, Pattern: route.Pattern{Path: "/orders"},
		PerKey: limits}}
}

// A call that the route denies leaves the caller's counts as they were, for as long as
// they were to last, also where the plan's limits have just been replaced by ones that
// forget sooner.
func TestDeniedByTheRouteLeavesNoTrace(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		daily := limiter.Limit{Requests: 5, Window: 24 * time.Hour, Algorithm: limiter.Counter}
		w.plan(t, "free", daily)
		k, secret := w.create(t, "caller", "free")
		w.save(t, func(s *policy.Set) { s.Routes = orders(1, limiter.Limit{Requests: 2, Window: time.Hour}) })
		w.expect(t, call(secret), "yy")
		state := keyspace.State(k.ID)
		before := w.lasting(t, state)
		w.plan(t, "free", limiter.Limit{Requests: 5, Window: time.Minute, Algorithm: limiter.TokenBucket})
		w.expect(t, call(secret), "nnn")
		if after := w.lasting(t, state); after.value != before.value || after.left > before.left ||
			after.left < before.left-time.Hour {
			t.Errorf("%q lasts %s; after three denied calls %q lasts %s", before.value, before.left,
				after.value, after.left)
		}
		w.plan(t, "free", daily)
		if c := w.expect(t, call(secret).to("GET", "/elsewhere"), "y"); c.Limits[0].Remaining != 2 {
			t.Errorf("%s, want 2 to remain", describe(c))
		}
	})
}

// lasting is a value and how long it is to last yet.
type lasting struct {
	value string
	left  time.Duration
}

func (w *world) lasting(t *testing.T, name string) lasting {
	t.Helper()
	value := must(w.client.Do(t.Context(), w.client.B().Get().Key(name).Build()).ToString())
	left := must(w.client.Do(t.Context(), w.client.B().Pttl().Key(name).Build()).AsInt64())
	return lasting{value, time.Duration(left) * time.Millisecond}
}

// A plan that is off does not lift the limits of a route.
func TestOffLeavesTheRoutesLimits(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(1)...)
		_, secret := w.create(t, "caller", "free")
		w.save(t, func(s *policy.Set) { s.Plans[0].Mode, s.Routes = policy.Off, orders(1, perMinute(2)...) })
		if c := w.expect(t, call(secret), "yyn"); len(c.Limits) != 1 ||
			c.Limits[0].Scope != policy.ScopeRoute {
			t.Errorf("%s, want the route's limit alone", describe(c))
		}
		w.expect(t, call(secret).to("GET", "/elsewhere"), "yyy")
		w.save(t, func(s *policy.Set) { s.Plans[0].Candidate = perMinute(1) })
		elsewhere := call(secret).to("GET", "/elsewhere")
		if first, second := w.check(t, elsewhere), w.check(t, elsewhere); !first.CandidateAllows ||
			second.CandidateAllows || !second.Allowed {
			t.Errorf("%s, then %s; want the candidate to decide", describe(first), describe(second))
		}
	})
}

// For a call that takes nothing there is nothing to settle, and no candidate that would
// deny it.
func TestCallsThatTakeNothing(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		counter := limiter.Limit{Requests: 6, Window: time.Hour, Algorithm: limiter.Counter}
		w.plan(t, "free", counter)
		_, secret := w.create(t, "caller", "free")
		w.save(t, func(s *policy.Set) {
			s.Routes = orders(3)
			s.Routes[0].Settle = true
			s.Exempt = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
			s.Plans[0].Candidate = []limiter.Limit{{Requests: 3, Window: time.Hour}}
		})
		outside := call(secret).from("198.51.100.1")
		w.expect(t, outside, "yyn")
		c := w.expect(t, call(secret).from("192.0.2.1"), "yyy")
		if c.Reservation != "" || !c.CandidateAllows {
			t.Errorf("an exempt call: %s", describe(c))
		}
		if c := w.check(t, outside); c.Allowed || c.Limits[0].Remaining != 0 {
			t.Errorf("%s, want nothing to remain", describe(c))
		}
	})
}

// A check function that slept through an edit, and still goes by a shorter window when it
// wakes, makes nobody forget what was counted meanwhile.
func TestSleepersForgetNothing(t *testing.T) {
	onVirtualTime(t)
	w := open(t, valkeytest.Start(t))
	w.checker = NewChecker(w.client, testPepper) // the check function's user cannot read the clock
	sleeper := NewChecker(w.client, testPepper)
	start := time.Unix(1_800_000_000, 0)
	w.setClock(t, start)
	w.plan(t, "free", hourly(100))
	_, secret := w.create(t, "caller", "free")
	w.save(t, func(s *policy.Set) { s.Global.Limits = perMinute(5) })
	if c, err := sleeper.Check(t.Context(), call(secret), nil); err != nil || !c.Allowed {
		t.Fatal(describe(c), err)
	}
	w.save(t, func(s *policy.Set) { s.Global.Limits = []limiter.Limit{hourly(5)} })
	w.expect(t, call(secret), "yyyyn")
	w.setClock(t, start.Add(10*time.Minute))
	if c, err := sleeper.Check(t.Context(), call(secret), nil); err != nil || c.Allowed {
		t.Errorf("the sixth call within an hour: %s, %v", describe(c), err)
	}
	w.expect(t, call(secret), "n")
}

// A settlement goes by what holds on the server's clock, so that it makes nobody forget
// what an override that has ended did not count.
func TestSettlementsForgetNothing(t *testing.T) {
	onVirtualTime(t)
	w := open(t, valkeytest.Start(t))
	w.checker = NewChecker(w.client, testPepper)
	start := time.Unix(1_800_000_000, 0).UTC() // far from the clock of whoever settles
	w.setClock(t, start)
	w.plan(t, "free", limiter.Limit{Requests: 5, Window: 24 * time.Hour, Algorithm: limiter.Counter})
	k, secret := w.create(t, "caller", "free")
	w.save(t, func(s *policy.Set) {
		s.Routes = orders(1)
		s.Routes[0].Settle = true
		s.Global.Limits = []limiter.Limit{{Requests: 9, Window: time.Hour}}
	})
	bucket := []limiter.Limit{{Requests: 5, Window: time.Minute, Algorithm: limiter.TokenBucket}}
	must(w.SetOverride(t.Context(), k.ID, k.Version,
		&policy.Override{Limits: bucket, Until: start.Add(time.Minute), Reason: "a minute"}, byTest))
	w.setClock(t, start.Add(2*time.Minute))
	c := w.expect(t, call(secret), "yyyy")
	if s := w.settle(t, c.Reservation, 0); !s.Now.Equal(start.Add(2 * time.Minute)) {
		t.Errorf("%+v", s)
	}
	w.setClock(t, start.Add(12*time.Minute))
	w.expect(t, call(secret), "yyn")
}
