package enforce

import (
	"net/netip"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

// million is a limit whose log has one slot for a hundred calls.
var million = limiter.Limit{Requests: 1_000_000, Window: 7 * time.Minute}

// Settling a call of cost 4,000 with 500 gives back exactly 3,500, to the caller's own
// limit and to a limit on all callers. This holds after up to 10,000 other calls.
func TestSettleALargeLimitExactly(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "large", million)
	w.save(t, func(s *policy.Set) {
		s.Routes = []policy.Route{{Name: "chat", Cost: 4000, Settle: true,
			Pattern: route.Pattern{Path: "/chat"}}}
		s.Global.Limits = []limiter.Limit{million}
	})
	_, secret := w.create(t, "chatty", "large")
	chat := call(secret).to("POST", "/chat")
	used := int64(0)
	for _, others := range []int64{0, 1, 10_000} {
		c := w.expect(t, chat, "y")
		for range others {
			w.expect(t, call(secret), "y")
		}
		before := w.expect(t, call(secret), "y")
		if s := w.settle(t, c.Reservation, 500); s.Partial {
			t.Errorf("after %d other calls: got %+v, want all given back", others, s)
		}
		after := w.expect(t, call(secret), "y")
		used += 500 + others + 2
		for i, l := range after.Limits {
			if more := l.Remaining + 1 - before.Limits[i].Remaining; more != 3500 ||
				l.Remaining != million.Requests-used {
				t.Errorf("after %d other calls: %s got back %d and has %d remaining, want 3500 and %d",
					others, l.Scope, more, l.Remaining, million.Requests-used)
			}
		}
	}
}

// Ten calls that a shared limit denies take nothing from the caller's own limit, for
// every algorithm.
func TestDeniedBySharedLimitCostsNothing(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		t.Run(algorithm.String(), func(t *testing.T) {
			w := open(t, valkeytest.Start(t))
			own := limiter.Limit{Requests: 1_000_000, Window: 366 * 24 * time.Hour, Algorithm: algorithm}
			w.plan(t, "large", own)
			w.save(t, func(s *policy.Set) {
				s.Routes = []policy.Route{{
					Name: "chat", Cost: 4000, Pattern: route.Pattern{Path: "/chat"},
					Shared: []limiter.Limit{{Requests: 4000, Window: time.Hour}},
				}}
			})
			_, secret := w.create(t, "chatty", "large")
			chat := call(secret).to("POST", "/chat")
			w.expect(t, chat, "y")
			before := w.expect(t, call(secret), "y").Limits[0].Remaining
			for range 10 {
				if c := w.expect(t, chat, "n"); c.Limits[0].Remaining != before {
					t.Errorf("after a denied call: got %d remaining, want %d", c.Limits[0].Remaining, before)
				}
			}
			if after := w.expect(t, call(secret), "y").Limits[0].Remaining; after != before-1 {
				t.Errorf("after ten denied calls and one allowed: got %d remaining, want %d", after, before-1)
			}
		})
	}
}

// A settlement is partial if a limit keeps counting what was to be given back, as one
// with CountDenied does. It is not partial if the call has already left the window.
func TestPartialSettlement(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "attempts", limiter.Limit{Requests: 20, Window: time.Hour, CountDenied: true})
	w.plan(t, "short", limiter.Limit{Requests: 20, Window: time.Millisecond})
	w.saveSettledRoute(t, 8)
	_, secret := w.create(t, "attempts", "attempts")
	if s := w.settle(t, w.expect(t, call(secret).to("POST", "/chat"), "y").Reservation, 3); !s.Partial {
		t.Errorf("limit that counts attempts: got %+v, want partial", s)
	}
	_, secret = w.create(t, "short", "short")
	c := w.expect(t, call(secret).to("POST", "/chat"), "y")
	for passed := time.Duration(0); passed < time.Millisecond; { // on the server's clock
		passed = w.check(t, call(secret)).Now.Sub(c.Now)
	}
	if s := w.settle(t, c.Reservation, 3); s.Partial {
		t.Errorf("after the window: got %+v, want not partial", s)
	}
}

// orders returns a route with limits on each caller.
func orders(cost int64, limits ...limiter.Limit) []policy.Route {
	return []policy.Route{{Name: "orders", Cost: cost, Pattern: route.Pattern{Path: "/orders"},
		PerKey: limits}}
}

// A call that the route's limits deny changes neither the caller's state nor when it
// expires. This holds even if an edit just gave the plan limits with a shorter memory.
func TestDeniedByTheRouteLeavesNoTrace(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		daily := limiter.Limit{Requests: 5, Window: 24 * time.Hour, Algorithm: limiter.Counter}
		w.plan(t, "free", daily)
		k, secret := w.create(t, "caller", "free")
		w.save(t, func(s *policy.Set) { s.Routes = orders(1, limiter.Limit{Requests: 2, Window: time.Hour}) })
		w.expect(t, call(secret), "yy")
		state := keyspace.State(k.ID)
		before := w.readExpiring(t, state)
		w.plan(t, "free", limiter.Limit{Requests: 5, Window: time.Minute, Algorithm: limiter.TokenBucket})
		w.expect(t, call(secret), "nnn")
		if after := w.readExpiring(t, state); after.value != before.value || after.left > before.left ||
			after.left < before.left-time.Hour {
			t.Errorf("after three denied calls: got %q for %s, want %q for up to %s", after.value, after.left,
				before.value, before.left)
		}
		w.plan(t, "free", daily)
		if c := w.expect(t, call(secret).to("GET", "/elsewhere"), "y"); c.Limits[0].Remaining != 2 {
			t.Errorf("got %s, want 2 remaining", describe(c))
		}
	})
}

// expiringValue is a value in Valkey and its remaining time to live.
type expiringValue struct {
	value string
	left  time.Duration
}

func (w *world) readExpiring(t *testing.T, name string) expiringValue {
	t.Helper()
	value := must(w.client.Do(t.Context(), w.client.B().Get().Key(name).Build()).ToString())
	left := must(w.client.Do(t.Context(), w.client.B().Pttl().Key(name).Build()).AsInt64())
	return expiringValue{value, time.Duration(left) * time.Millisecond}
}

// The limits of a route apply also under an override without limits.
func TestRouteLimitsApplyWithoutLimitsOfThePlan(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(1)...)
		k, secret := w.create(t, "caller", "free")
		must(registrytest.Override(t.Context(), w, k.ID, k.Version, &policy.Override{Reason: "x"}, byTest))
		w.save(t, func(s *policy.Set) { s.Routes = orders(1, perMinute(2)...) })
		if c := w.expect(t, call(secret), "yyn"); len(c.Limits) != 1 ||
			c.Limits[0].Scope != policy.ScopeRoute {
			t.Errorf("got %s, want the route's limit alone", describe(c))
		}
		w.expect(t, call(secret).to("GET", "/elsewhere"), "yyy")
	})
}

// A call from an exempt address has no reservation.
func TestCallsThatTakeNothing(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		counter := limiter.Limit{Requests: 6, Window: time.Hour, Algorithm: limiter.Counter}
		w.plan(t, "free", counter)
		_, secret := w.create(t, "caller", "free")
		w.save(t, func(s *policy.Set) {
			s.Routes = orders(3)
			s.Routes[0].Settle = true
			s.Exempt = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		})
		outside := call(secret).from("198.51.100.1")
		w.expect(t, outside, "yyn")
		c := w.expect(t, call(secret).from("192.0.2.1"), "yyy")
		if c.Reservation != "" {
			t.Errorf("exempt call: got %s, want no reservation", describe(c))
		}
		if c := w.check(t, outside); c.Allowed || c.Limits[0].Remaining != 0 {
			t.Errorf("got %s, want nothing remaining", describe(c))
		}
	})
}

// A Checker that missed an edit and still has a shorter window does not drop counts that
// the longer window needs. The script finds that its policy set is stale.
func TestStaleCheckerForgetsNothing(t *testing.T) {
	onVirtualTime(t)
	w := open(t, valkeytest.Start(t))
	w.checker = NewChecker(w.client, testPepper) // the check function's user cannot read the clock
	stale := NewChecker(w.client, testPepper)
	start := time.Unix(1_800_000_000, 0)
	w.setClock(t, start)
	w.plan(t, "free", hourly(100))
	_, secret := w.create(t, "caller", "free")
	w.save(t, func(s *policy.Set) { s.Global.Limits = perMinute(5) })
	if c, err := stale.Check(t.Context(), call(secret), nil); err != nil || !c.Allowed {
		t.Fatal(describe(c), err)
	}
	w.save(t, func(s *policy.Set) { s.Global.Limits = []limiter.Limit{hourly(5)} })
	w.expect(t, call(secret), "yyyyn")
	w.setClock(t, start.Add(10*time.Minute))
	if c, err := stale.Check(t.Context(), call(secret), nil); err != nil || c.Allowed {
		t.Errorf("sixth call within an hour: got %s, %v, want a denial", describe(c), err)
	}
	w.expect(t, call(secret), "n")
}

// A settlement applies the limits that are in force by the server's clock. It does not
// use an override that has ended, whose limits would drop counts that the plan's limits
// need.
func TestSettlementUsesServerTime(t *testing.T) {
	onVirtualTime(t)
	w := open(t, valkeytest.Start(t))
	w.checker = NewChecker(w.client, testPepper)
	start := time.Unix(1_800_000_000, 0).UTC() // far from the clock of the Checker
	w.setClock(t, start)
	w.plan(t, "free", limiter.Limit{Requests: 5, Window: 24 * time.Hour, Algorithm: limiter.Counter})
	k, secret := w.create(t, "caller", "free")
	w.save(t, func(s *policy.Set) {
		s.Routes = orders(1)
		s.Routes[0].Settle = true
		s.Global.Limits = []limiter.Limit{{Requests: 9, Window: time.Hour}}
	})
	bucket := []limiter.Limit{{Requests: 5, Window: time.Minute, Algorithm: limiter.TokenBucket}}
	must(registrytest.Override(t.Context(), w, k.ID, k.Version,
		&policy.Override{Limits: bucket, Until: start.Add(time.Minute), Reason: "a minute"}, byTest))
	w.setClock(t, start.Add(2*time.Minute))
	c := w.expect(t, call(secret), "yyyy")
	if s := w.settle(t, c.Reservation, 0); !s.Now.Equal(start.Add(2 * time.Minute)) {
		t.Errorf("got %+v, want the server's time", s)
	}
	w.setClock(t, start.Add(12*time.Minute))
	w.expect(t, call(secret), "yyn")
}

// If the step on a shared limit fails, the call gives back what it took from the caller's
// own limits and from the route's.
func TestFailedStepsAreGivenBack(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", limiter.Limit{Requests: 5, Window: time.Hour})
		w.save(t, func(s *policy.Set) {
			s.Global = policy.Scope{Limits: perMinute(1000)}
			s.Routes = []policy.Route{{Name: "all", Cost: 1, PerKey: perMinute(50)}}
		})
		_, secret := w.create(t, "caller", "free")
		state := keyspace.Of("global", "s")
		del := w.client.B().Del().Key(state).Build()
		unreadable := w.client.B().Lpush().Key(state).Element("no state of a limit").Build()
		for _, result := range w.client.DoMulti(t.Context(), del, unreadable) {
			if err := result.Error(); err != nil {
				t.Fatal(err)
			}
		}
		for range 8 {
			if c, err := w.checker.Check(t.Context(), call(secret), nil); err == nil || c.Allowed {
				t.Fatalf("got %s, %v, want an error", describe(c), err)
			}
		}
		if err := w.client.Do(t.Context(), w.client.B().Del().Key(state).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		c := w.expect(t, call(secret), "yyyyyn")
		if c.Limits[1].Remaining != 45 {
			t.Errorf("got %d remaining on the route, want 45", c.Limits[1].Remaining)
		}
	})
}

// lastMillisecond precedes a script and makes PTTL return 0 for every key that expires,
// as in the last millisecond of its life.
const lastMillisecond = `
local redis = setmetatable({call = function(command, ...)
  local reply = redis.call(command, ...)
  return command == 'PTTL' and reply > 0 and 0 or reply
end}, {__index = redis})
`

// A script that undoes a step in the last millisecond of a state's life still gives the
// state an expiry.
func TestUndoneStateStillExpires(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.save(t, func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "free", Limits: perMinute(7)}}
		s.Routes = []policy.Route{{Name: "orders", Pattern: route.Pattern{Path: "/orders"}, Cost: 1,
			PerKey: perMinute(1)}}
	})
	for name, command := range map[string]func(apikey.Secret) valkey.Completed{
		"denied by the route": func(secret apikey.Secret) valkey.Completed {
			set := w.checker.set.Load()
			plan, rule, err := matchCall(set, call(secret))
			if err != nil {
				t.Fatal(err)
			}
			step := w.checker.ownStep(set, call(secret), rule, plan)
			eval := w.client.B().Eval().Script(lastMillisecond +
				step.script.Text()).Numkeys(int64(len(step.keys)))
			return eval.Key(step.keys...).Arg(step.args...).Build()
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, secret := w.create(t, "a", "free")
			w.expect(t, call(secret), "y")
			if err := w.client.Do(t.Context(), command(secret)).Error(); err != nil {
				t.Fatal(err)
			}
			left := must(w.client.Do(t.Context(),
				w.client.B().Pttl().Key(keyspace.State(k.ID)).Build()).AsInt64())
			if left == -1 || left > 1 {
				t.Errorf("got a time to live of %d ms, want at most 1; -1 means none", left)
			}
		})
	}
}
