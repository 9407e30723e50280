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
	"tidegate/internal/testing/valkeytest"
)

// million is a limit whose slots stand for a hundred calls each.
var million = limiter.Limit{Requests: 1_000_000, Window: 7 * time.Minute}

// After a call of 4,000 settled with 500 the next call sees exactly 3,500 more, on the
// caller's own limit and on one of all callers, also after 10,000 other calls.
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
	used := int64(0) // by calls of cost 1, of which each looks
	for _, others := range []int64{0, 1, 10_000} {
		c := w.expect(t, chat, "y")
		for range others {
			w.expect(t, call(secret), "y")
		}
		before := w.expect(t, call(secret), "y")
		if s := w.settle(t, c.Reservation, 500); s.Partial || s.Short != 0 {
			t.Errorf("after %d other calls: %+v", others, s)
		}
		after := w.expect(t, call(secret), "y")
		used += 500 + others + 2
		for i, l := range after.Limits {
			if more := l.Remaining + 1 - before.Limits[i].Remaining; more != 3500 ||
				l.Remaining != million.Requests-used {
				t.Errorf("after %d other calls: %s sees %d more, and %d remain; want 3,500 and %d",
					others, l.Scope, more, l.Remaining, million.Requests-used)
			}
		}
	}
}

// Ten calls that a shared limit denies leave the caller's own budget as it was, in every
// algorithm.
func TestDeniedByOthersCostsNothing(t *testing.T) {
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
					t.Errorf("%d remain after a denied call, want %d", c.Limits[0].Remaining, before)
				}
			}
			if after := w.expect(t, call(secret), "y").Limits[0].Remaining; after != before-1 {
				t.Errorf("%d remain after ten denied calls and one, want %d", after, before-1)
			}
		})
	}
}

// A settlement that gives back less than it should says so: attempts stay attempts. What
// has left its window is none that should.
func TestPartialSaysWhatIsStillCounted(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "attempts", limiter.Limit{Requests: 20, Window: time.Hour, CountDenied: true})
	w.plan(t, "short", limiter.Limit{Requests: 20, Window: time.Millisecond})
	w.priced(t, 8)
	_, secret := w.create(t, "attempts", "attempts")
	if s := w.settle(t, w.expect(t, call(secret).to("POST", "/chat"), "y").Reservation, 3); !s.Partial {
		t.Errorf("%+v, want partial", s)
	}
	_, secret = w.create(t, "short", "short")
	c := w.expect(t, call(secret).to("POST", "/chat"), "y")
	for passed := time.Duration(0); passed < time.Millisecond; { // on the server's clock
		passed = w.check(t, call(secret)).Now.Sub(c.Now) // a denial is as good
	}
	if s := w.settle(t, c.Reservation, 3); s.Partial {
		t.Errorf("%+v, want nothing partial", s)
	}
}

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

// A call about which a shared limit cannot decide gives back what the caller's own
// limits, and those of its address, gave for it.
func TestFailedStepsLeaveNothingTaken(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		for name, lease := range map[string]time.Duration{"asked each time": 0, "leased": time.Second} {
			t.Run(name, func(t *testing.T) {
				w.plan(t, "free", limiter.Limit{Requests: 5, Window: time.Hour})
				w.save(t, func(s *policy.Set) {
					s.Global = policy.Scope{Limits: perMinute(1000), Lease: policy.Duration(lease)}
					s.Routes = []policy.Route{{Name: "all", Cost: 1, PerKey: perMinute(50)}}
				})
				_, secret := w.create(t, name, "free")
				state := keyspace.Of("global", "s")
				del, unreadable := w.client.B().Del().Key(state).Build(),
					w.client.B().Lpush().Key(state).Element("no state of a limit").Build()
				for _, result := range w.client.DoMulti(t.Context(), del, unreadable) {
					if err := result.Error(); err != nil {
						t.Fatal(err)
					}
				}
				for range 8 {
					if c, err := w.checker.Check(t.Context(), call(secret), nil); err == nil || c.Allowed {
						t.Fatalf("%s, %v: want an error", describe(c), err)
					}
				}
				if err := w.client.Do(t.Context(),
					w.client.B().Del().Key(state).Build()).Error(); err != nil {
					t.Fatal(err)
				}
				c := w.expect(t, call(secret), "yyyyyn")
				if c.Limits[1].Remaining != 45 {
					t.Errorf("%d of the route's 50 remain, want 45", c.Limits[1].Remaining)
				}
			})
		}
	})
}

// lastMillisecond runs a script as it runs when less than a millisecond is left to every
// key that expires.
const lastMillisecond = `
local redis = setmetatable({call = function(command, ...)
  local reply = redis.call(command, ...)
  return command == 'PTTL' and reply > 0 and 0 or reply
end}, {__index = redis})
`

// A state that is put back in the last millisecond of its life does not live for ever.
func TestPutBackInTheLastMillisecond(t *testing.T) {
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
		"explained": func(secret apikey.Secret) valkey.Completed {
			program := must(limiter.Compile(perMinute(7), w.Now()))
			eval := w.client.B().Eval().Script(lastMillisecond + limiter.StepFunction() + tryLua).Numkeys(1)
			return eval.Key(keyspace.State(secret.ID())).Arg(valkey.BinaryString(program), "1").Build()
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
				t.Errorf("the state lives for %d ms, want at most 1; -1 is for ever", left)
			}
		})
	}
}
