package enforce

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

const (
	orderAddress = "192.0.2.1"
	deniedRange  = "198.51.100.0/24"
	allowedRange = "203.0.113.0/24" // without orderAddress
)

// sharedKind is a way in which a Set shares a limit.
type sharedKind struct {
	share func(s *policy.Set, limits []limiter.Limit)
	state func(c *Checker) string
	group string // of the callers
}

var sharedKinds = map[string]sharedKind{
	"global": {
		func(s *policy.Set, limits []limiter.Limit) { s.Global.Limits = limits },
		func(*Checker) string { return keyspace.State(policy.GlobalID) }, "",
	},
	"leased global": {
		func(s *policy.Set, limits []limiter.Limit) {
			s.Global = policy.Scope{Limits: limits, Lease: policy.Duration(15 * time.Second)}
		},
		func(*Checker) string { return keyspace.State(policy.GlobalID) }, "",
	},
	"route": {
		func(s *policy.Set, limits []limiter.Limit) { s.Routes[0].Shared = limits },
		func(*Checker) string { return keyspace.State(policy.RouteID("all")) }, "",
	},
	"address": {
		func(s *policy.Set, limits []limiter.Limit) { s.PerIP.Limits = limits },
		func(c *Checker) string { return keyspace.Of(orderNetwork(c), "sp") }, "",
	},
	"address on a route": {
		func(s *policy.Set, limits []limiter.Limit) { s.Routes[0].PerIP = limits },
		func(c *Checker) string { return keyspace.Of(orderNetwork(c), "s"+policy.RouteTag("all")) }, "",
	},
	"group": { // of the plan that was made last
		func(s *policy.Set, limits []limiter.Limit) {
			for i := range s.Plans {
				s.Plans[i].PerGroup = limits
			}
		},
		func(c *Checker) string {
			return keyspace.Of(policy.GroupID("acme"), policy.GroupState(len(c.Set().Plans)))
		}, "acme",
	},
}

func orderNetwork(c *Checker) string {
	return c.addresses.ID(netip.MustParsePrefix(orderAddress + "/32"))
}

// deniedKinds make callers who may not call. Each returns such a call.
var deniedKinds = map[string]func(*testing.T, *world) Call{
	"unknown": func(*testing.T, *world) Call { return call(must(apikey.Generate("test"))) },
	"wrong secret": func(t *testing.T, w *world) Call {
		k, _ := w.create(t, "caller", "free")
		return call(must(apikey.Renew("test", k.ID)))
	},
	"revoked": func(t *testing.T, w *world) Call {
		return w.edited(t, func(k *policy.Key) { k.Status = policy.Revoked })
	},
	"expired": func(t *testing.T, w *world) Call {
		return w.edited(t, func(k *policy.Key) { k.Expires = time.Now().Add(-time.Second) })
	},
	"banned by hand": func(t *testing.T, w *world) Call {
		return w.edited(t, func(k *policy.Key) { k.Banned = time.Now().Add(time.Hour) })
	},
	"banned by the policy": func(t *testing.T, w *world) Call {
		w.save(t, func(s *policy.Set) {
			s.Bans = &policy.Bans{Denials: 2, Window: policy.Duration(time.Hour),
				Base: policy.Duration(time.Hour), Cap: policy.Duration(time.Hour)}
		})
		return w.overLimit(t, "ynn")
	},
	"over its limit": func(t *testing.T, w *world) Call { return w.overLimit(t, "y") },
	"over its limit on the route": func(t *testing.T, w *world) Call {
		w.save(t, func(s *policy.Set) { s.Routes[0].PerKey = []limiter.Limit{hourly(1)} })
		_, secret := w.create(t, "caller", "pro")
		c := call(secret).from(orderAddress)
		w.expect(t, c, "y")
		return c
	},
	"refused address": func(t *testing.T, w *world) Call {
		w.save(t, func(s *policy.Set) { s.Allow = []netip.Prefix{netip.MustParsePrefix(allowedRange)} })
		_, secret := w.create(t, "caller", "pro")
		return call(secret)
	},
	"denied address": func(t *testing.T, w *world) Call {
		w.save(t, func(s *policy.Set) {
			s.Deny = []netip.Prefix{netip.MustParsePrefix(orderAddress + "/32")}
		})
		_, secret := w.create(t, "caller", "pro")
		return call(secret)
	},
}

// edited is a call by a key that was changed before its first call.
func (w *world) edited(t *testing.T, change func(*policy.Key)) Call {
	t.Helper()
	k, secret := w.create(t, "caller", "free")
	must(w.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, change))
	return call(secret)
}

// overLimit is a call by a key whose plan allows one, after so many calls.
func (w *world) overLimit(t *testing.T, calls string) Call {
	t.Helper()
	_, secret := w.create(t, "caller", "free")
	c := call(secret).from(orderAddress)
	w.expect(t, c, calls)
	return c
}

// refused makes a call that must not be allowed.
func (w *world) refused(t *testing.T, c Call) {
	t.Helper()
	checked, err := w.checker.Check(t.Context(), c, nil)
	if checked.Allowed || err != nil && !errors.Is(err, policy.ErrUnknownKey) &&
		!errors.Is(err, policy.ErrRefused) {
		t.Fatalf("%s, %v; want a refusal", describe(checked), err)
	}
}

// Whoever may not call never touches what others share: the server runs no command on it.
func TestDeniedCallersTouchNothingShared(t *testing.T) {
	for limit, shared := range sharedKinds {
		for caller, prepare := range deniedKinds {
			t.Run(limit+"/"+caller, func(t *testing.T) {
				server := valkeytest.Start(t)
				w := open(t, server)
				w.group = shared.group
				w.plan(t, "free", hourly(1))
				w.plan(t, "pro", hourly(1000))
				w.save(t, func(s *policy.Set) {
					s.Routes = []policy.Route{{Name: "all", Cost: 1}}
					shared.share(s, []limiter.Limit{hourly(1000)})
				})
				_, secret := w.create(t, "legitimate", "pro")
				w.expect(t, call(secret).from(orderAddress), "yyyyy")
				denied := prepare(t, w).from(orderAddress)
				if _, err := w.checker.Check(t.Context(), call(secret).from(orderAddress), nil); err != nil &&
					!errors.Is(err, policy.ErrRefused) {
					t.Fatal(err)
				}
				key := shared.state(w.checker)
				before, held := w.dump(t, key), w.held()
				monitor := valkeytest.StartMonitor(t, server)
				for range 4 {
					w.refused(t, denied)
				}
				for _, command := range monitor.Commands() {
					if strings.Contains(command, strings.TrimRight(key, "12")) { // of either plan
						t.Errorf("the server ran %s", command)
					}
				}
				if after := w.dump(t, key); after != before || before == "" || w.held() != held {
					t.Errorf("%q became %q, and %d leased calls %d", before, after, held, w.held())
				}
			})
		}
	}
}

// dump is what a key holds; empty when there is none.
func (w *world) dump(t *testing.T, key string) string {
	t.Helper()
	text, err := w.client.Do(t.Context(), w.client.B().Dump().Key(key).Build()).ToString()
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return text
}

// held is what the checker holds of the limit of all calls.
func (w *world) held() int64 {
	g := w.checker.set.Load().SharedGlobal
	if g == nil {
		return 0
	}
	_, left := g.Held()
	return left
}

// A caller that was allowed lately reaches shared limits once at most after it was
// revoked, banned or has used up its limits elsewhere, and that is given back.
func TestDeniedAfterAllowed(t *testing.T) {
	for limit, shared := range sharedKinds {
		for name, deny := range map[string]func(*testing.T, *world, policy.Key, Call){
			"revoked": func(t *testing.T, w *world, k policy.Key, _ Call) {
				must(w.Revoke(t.Context(), k.ID, k.Version, byTest))
			},
			"banned": func(t *testing.T, w *world, k policy.Key, _ Call) {
				ban := func(k *policy.Key) { k.Banned = time.Now().Add(time.Hour) }
				must(w.Update(t.Context(), k.ID, k.Version, "key.ban", byTest, ban))
			},
			"over its limit by calls elsewhere": func(t *testing.T, w *world, _ policy.Key, c Call) {
				other := &world{Store: w.Store, checker: NewChecker(w.client, testPepper), client: w.client}
				other.expect(t, c.to("GET", "/elsewhere").from("203.0.113.9"), strings.Repeat("y", 8)+"n")
			},
		} {
			t.Run(limit+"/"+name, func(t *testing.T) {
				server := valkeytest.Start(t)
				w := open(t, server)
				w.group = shared.group
				w.plan(t, "free", hourly(10))
				w.save(t, func(s *policy.Set) {
					s.Routes = []policy.Route{{Name: "all", Cost: 1}}
					shared.share(s, []limiter.Limit{hourly(1000)})
				})
				k, secret := w.create(t, "caller", "free")
				c := call(secret).from(orderAddress)
				w.expect(t, c, "yy")
				deny(t, w, k, c)
				used := w.usedOf(t, shared)
				monitor := valkeytest.StartMonitor(t, server)
				w.refused(t, c)
				monitor.Commands()
				for range 3 {
					w.refused(t, c)
				}
				for _, command := range monitor.Commands() {
					if strings.Contains(command, shared.state(w.checker)) {
						t.Errorf("the second denial: the server ran %s", command)
					}
				}
				if now := w.usedOf(t, shared); now != used {
					t.Errorf("%d calls counted, %d before", now, used)
				}
			})
		}
	}
}

// usedOf is how many calls a shared limit of 1,000 an hour counts, without those that the
// checker holds.
func (w *world) usedOf(t *testing.T, kind sharedKind) int64 {
	t.Helper()
	set := w.checker.set.Load()
	rule := set.Named(set.Routes[0].Name)
	for _, s := range []*compiled.SharedLimit{set.SharedGlobal, set.SharedPerIP, rule.SharedPerIP,
		rule.SharedByAll, set.GroupLimit(1)} {
		if s == nil {
			continue
		}
		keys := []string{kind.state(w.checker), "no copy"}
		// the check function's user may not name other keys
		reply, err := stepScript.Do(t.Context(), w.client, keys,
			stepArgs(s.Program, 0, time.Time{}, 0)).AsBytes()
		if err != nil {
			t.Fatal(err)
		}
		return must(limiter.ParseReply(reply, s.Counted)).Limits[0].Used() - w.held()
	}
	t.Fatal("nothing is shared")
	return 0
}

// A key that is about to expire, as its last call said, does not count as one that may
// call once it has.
func TestExpiryEndsWhatIsKnownOfACaller(t *testing.T) {
	onVirtualTime(t)
	w := open(t, valkeytest.Start(t))
	start := time.Unix(1_800_000_000, 0)
	now := start
	w.Now = func() time.Time { return now }
	client := &countingClient{Client: w.client}
	w.checker = NewChecker(client, testPepper)
	w.checker.now = w.Now
	w.setClock(t, now)
	w.plan(t, "free", hourly(10))
	w.save(t, func(s *policy.Set) { s.Global.Limits = []limiter.Limit{hourly(10)} })
	k, secret := w.create(t, "caller", "free")
	must(w.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, func(k *policy.Key) {
		k.Expires = start.Add(5 * time.Second)
	}))
	w.expect(t, call(secret), "yy")
	for _, c := range []struct {
		at   time.Duration
		want string
	}{{4 * time.Second, "allowed, 1 round trips"}, {5 * time.Second, "refused, 1 round trips"}} {
		now = start.Add(c.at)
		w.setClock(t, now)
		client.trips.Store(0)
		_, err := w.checker.Check(t.Context(), call(secret), nil)
		got := fmt.Sprintf("%s, %d round trips",
			map[bool]string{true: "allowed", false: "refused"}[err == nil], client.trips.Load())
		if got != c.want {
			t.Errorf("after %s: %s, want %s", c.at, got, c.want)
		}
	}
}

// The memory of callers is bounded, and forgets those who have not called for longest.
func TestRecentCallersAreBounded(t *testing.T) {
	r, rule, set := newRecentCallers(), &compiled.Route{Route: policy.Route{Cost: 1}}, &compiled.Set{}
	now := time.Now()
	for i := range 3 * maxRecent {
		r.learn(recentCaller{subject: fmt.Sprint(i)}, rule, now, &Result{Allowed: true})
	}
	allows := func(who recentCaller, set *compiled.Set, now time.Time) bool {
		_, allowed := r.allow(who, rule, set, now)
		return allowed
	}
	known := 0
	for i := range 3 * maxRecent {
		if allows(recentCaller{subject: fmt.Sprint(i)}, set, now) {
			known++
		}
	}
	if known != maxRecent || r.entries.Len() != maxRecent {
		t.Errorf("%d callers are known in %d entries, want %d", known, r.entries.Len(), maxRecent)
	}
	last := recentCaller{subject: fmt.Sprint(3*maxRecent - 1)}
	for what, other := range map[string]recentCaller{
		"another secret": {subject: last.subject, secret: "other"},
		"another plan":   {subject: last.subject, plan: "other"},
	} {
		if allows(other, set, now) {
			t.Errorf("%s counts as the same caller", what)
		}
	}
	if allows(last, &compiled.Set{Set: policy.Set{Version: 1}}, now) {
		t.Error("a newer Set does not end what is known")
	}
	if allows(last, set, now.Add(recentlyAllowed)) {
		t.Errorf("the caller is known after %s", recentlyAllowed)
	}
	if n := testing.AllocsPerRun(100, func() {
		r.allow(last, rule, set, now)
		r.learn(last, rule, now, &Result{Allowed: true})
	}); n > 0 {
		t.Errorf("a check by a known caller allocates %v times, want 0", n)
	}
}

// Floods of calls by callers who may not call leave what others share to those, and deny
// them nothing.
func TestFloodsLeaveSharedLimits(t *testing.T) {
	for name, c := range map[string]struct {
		limit  limiter.Limit
		cost   int64
		probes int64
	}{
		"20,000 per 5 min": {limiter.Limit{Requests: 20_000, Window: 5 * time.Minute}, 1, 8},
		"1,000,000 per 5 min at cost 4,000": {
			limiter.Limit{Requests: 1_000_000, Window: 5 * time.Minute}, 4000, 8},
		"5 per 10 s": {limiter.Limit{Requests: 5, Window: 10 * time.Second}, 1, 5},
	} {
		for _, scope := range []string{"global", "route"} {
			t.Run(name+"/"+scope, func(t *testing.T) {
				w := open(t, valkeytest.Start(t))
				w.plan(t, "free", limiter.Limit{Requests: 100_000_000, Window: time.Hour})
				w.save(t, func(s *policy.Set) {
					s.Routes = []policy.Route{{Name: "all", Cost: c.cost}}
					sharedKinds[scope].share(s, []limiter.Limit{c.limit})
				})
				revoked, banned := deniedKinds["revoked"](t, w), deniedKinds["banned by hand"](t, w)
				_, legitimate := w.create(t, "legitimate", "free")
				made := w.flood(t, 16, func(n int64) Call {
					switch n % 3 {
					case 0:
						return revoked
					case 1:
						return banned
					}
					return call(must(apikey.Generate("test")))
				})
				var first, last Result
				for probe := range c.probes {
					made(1500)
					if last = w.check(t, call(legitimate)); !last.Allowed {
						t.Fatalf("probe %d is denied: %s", probe+1, describe(last))
					}
					if probe == 0 {
						first = last
					}
				}
				want := c.limit.Requests - c.probes*c.cost
				if got := last.Limits[1].Remaining; got != want && last.Now.Sub(first.Now) < c.limit.Window {
					t.Errorf("%d remain, want %d", got, want)
				}
			})
		}
	}
}

// flood makes calls that must be refused until the test ends. The function that it
// returns waits until so many more were made.
func (w *world) flood(t *testing.T, threads int, next func(n int64) Call) func(calls int64) {
	t.Helper()
	var group sync.WaitGroup
	var made atomic.Int64
	done := make(chan struct{})
	t.Cleanup(func() {
		close(done)
		group.Wait()
	})
	checkers := []*Checker{w.checker, NewChecker(w.client, testPepper)}
	ctx := t.Context()
	more := make(chan struct{}, 1)
	for i := range threads {
		group.Go(func() {
			for n := made.Add(1); ; n = made.Add(1) {
				select {
				case <-done:
					return
				case more <- struct{}{}:
				default:
				}
				checked, err := checkers[i%2].Check(ctx, next(n), nil)
				if ctx.Err() == nil && (checked.Allowed || err != nil &&
					!errors.Is(err, policy.ErrUnknownKey)) {
					t.Errorf("%s, %v; want a refusal", describe(checked), err)
					return
				}
			}
		})
	}
	return func(calls int64) {
		t.Helper()
		deadline := time.NewTimer(time.Minute)
		defer deadline.Stop()
		for end := made.Load() + calls; made.Load() < end && !t.Failed(); {
			select {
			case <-more:
			case <-deadline.C:
				t.Fatalf("%d of %d calls were made within a minute", made.Load(), end)
			}
		}
	}
}
