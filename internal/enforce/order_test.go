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
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
)

const (
	testAddress  = "192.0.2.1"
	deniedRange  = "198.51.100.0/24"
	allowedRange = "203.0.113.0/24" // without testAddress
)

// sharedKind is a kind of shared limits.
type sharedKind struct {
	share func(s *policy.Set, limits []limiter.Limit) // sets the limits
	state func(c *Checker) string                     // returns the key of their state
	group string                                      // group of the callers
}

var sharedKinds = map[string]sharedKind{
	"global": {
		func(s *policy.Set, limits []limiter.Limit) { s.Global.Limits = limits },
		func(*Checker) string { return keyspace.State(policy.GlobalID) }, "",
	},
	"route": {
		func(s *policy.Set, limits []limiter.Limit) { s.Routes[0].Shared = limits },
		func(*Checker) string { return keyspace.State(policy.RouteID("all")) }, "",
	},
	"address": {
		func(s *policy.Set, limits []limiter.Limit) { s.PerIP.Limits = limits },
		func(c *Checker) string { return keyspace.Of(testNetwork(c), "sp") }, "",
	},
	"address on a route": {
		func(s *policy.Set, limits []limiter.Limit) { s.Routes[0].PerIP = limits },
		func(c *Checker) string { return keyspace.Of(testNetwork(c), "s"+policy.RouteTag("all")) }, "",
	},
	"group": { // state of the last plan's limits
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

func testNetwork(c *Checker) string {
	return c.subjects.Network(netip.MustParsePrefix(testAddress + "/32"))
}

// deniedCallers create callers that may not call, and return a call by them.
var deniedCallers = map[string]func(*testing.T, *world) Call{
	"unknown": func(*testing.T, *world) Call { return call(must(apikey.Generate("test"))) },
	"wrong secret": func(t *testing.T, w *world) Call {
		k, _ := w.create(t, "caller", "free")
		return call(must(apikey.Renew("test", k.ID)))
	},
	"revoked": func(t *testing.T, w *world) Call {
		return w.callByEdited(t, func(k *policy.Key) { k.Status = policy.Revoked })
	},
	"expired": func(t *testing.T, w *world) Call {
		return w.callByEdited(t, func(k *policy.Key) { k.Expires = time.Now().Add(-time.Second) })
	},
	"banned": func(t *testing.T, w *world) Call {
		return w.callByEdited(t, func(k *policy.Key) { k.Banned = time.Now().Add(time.Hour) })
	},
	"over its limit": func(t *testing.T, w *world) Call { return w.callOverLimit(t, "y") },
	"over its limit on the route": func(t *testing.T, w *world) Call {
		w.save(t, func(s *policy.Set) { s.Routes[0].PerKey = []limiter.Limit{hourly(1)} })
		_, secret := w.create(t, "caller", "pro")
		c := call(secret).from(testAddress)
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
			s.Deny = []netip.Prefix{netip.MustParsePrefix(testAddress + "/32")}
		})
		_, secret := w.create(t, "caller", "pro")
		return call(secret)
	},
}

// callByEdited creates a key, edits it and returns a call by it.
func (w *world) callByEdited(t *testing.T, change func(*policy.Key)) Call {
	t.Helper()
	k, secret := w.create(t, "caller", "free")
	must(w.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, change))
	return call(secret)
}

// callOverLimit creates a key of a plan that allows one call, makes calls as expect does,
// and returns a further call.
func (w *world) callOverLimit(t *testing.T, calls string) Call {
	t.Helper()
	_, secret := w.create(t, "caller", "free")
	c := call(secret).from(testAddress)
	w.expect(t, c, calls)
	return c
}

// expectRefused requires that a check denies or refuses a call.
func (w *world) expectRefused(t *testing.T, c Call) {
	t.Helper()
	result, err := w.checker.Check(t.Context(), c, nil)
	if result.Allowed || err != nil && !errors.Is(err, policy.ErrUnknownKey) &&
		!errors.Is(err, policy.ErrRefused) {
		t.Fatalf("got %s, %v, want a denial or refusal", describe(result), err)
	}
}

// A caller that may not call never touches a shared limit: the server runs no command on
// its state.
func TestDeniedCallersTouchNothingShared(t *testing.T) {
	tier.Two(t, "makes thousands of calls")
	for limit, shared := range sharedKinds {
		for caller, prepare := range deniedCallers {
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
				w.expect(t, call(secret).from(testAddress), "yyyyy")
				denied := prepare(t, w).from(testAddress)
				if _, err := w.checker.Check(t.Context(), call(secret).from(testAddress), nil); err != nil &&
					!errors.Is(err, policy.ErrRefused) {
					t.Fatal(err)
				}
				key := shared.state(w.checker)
				before := w.dump(t, key)
				monitor := valkeytest.StartMonitor(t, server)
				for range 4 {
					w.expectRefused(t, denied)
				}
				for _, command := range monitor.Commands() {
					if strings.Contains(command, strings.TrimRight(key, "12")) { // state of either plan
						t.Errorf("the server ran %s on a shared limit", command)
					}
				}
				if after := w.dump(t, key); after != before || before == "" {
					t.Errorf("the state is %q, want %q", after, before)
				}
			})
		}
	}
}

// dump returns the value of a key in the form of DUMP.
func (w *world) dump(t *testing.T, key string) string {
	t.Helper()
	text, err := w.client.Do(t.Context(), w.client.B().Dump().Key(key).Build()).ToString()
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return text
}

// A caller that was allowed lately is revoked, banned, or uses up its limits elsewhere.
// Then it reaches shared limits at most once more, and what that call takes is given
// back.
func TestDeniedAfterAllowed(t *testing.T) {
	for limit, shared := range sharedKinds {
		for name, deny := range map[string]func(*testing.T, *world, policy.Key, Call){
			"revoked": func(t *testing.T, w *world, k policy.Key, _ Call) {
				must(registrytest.Revoke(t.Context(), w, k.ID, k.Version, byTest))
			},
			"banned": func(t *testing.T, w *world, k policy.Key, _ Call) {
				ban := func(k *policy.Key) { k.Banned = time.Now().Add(time.Hour) }
				must(w.Update(t.Context(), k.ID, k.Version, "key.ban", byTest, ban))
			},
			"over its limit in another environment": func(t *testing.T, w *world, _ policy.Key, c Call) {
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
				c := call(secret).from(testAddress)
				w.expect(t, c, "yy")
				deny(t, w, k, c)
				used := w.sharedUsage(t, shared)
				monitor := valkeytest.StartMonitor(t, server)
				w.expectRefused(t, c)
				monitor.Commands()
				for range 3 {
					w.expectRefused(t, c)
				}
				for _, command := range monitor.Commands() {
					if strings.Contains(command, shared.state(w.checker)) {
						t.Errorf("second denial: the server ran %s on the shared limit", command)
					}
				}
				if now := w.sharedUsage(t, shared); now != used {
					t.Errorf("the shared limit counts %d calls, want %d as before", now, used)
				}
			})
		}
	}
}

// sharedUsage returns how many calls the only shared limit counts.
func (w *world) sharedUsage(t *testing.T, kind sharedKind) int64 {
	t.Helper()
	set := w.checker.set.Load()
	rule := set.Named(set.Routes[0].Name)
	for _, s := range []*compiled.SharedLimit{set.SharedGlobal, set.SharedPerIP, rule.SharedPerIP,
		rule.SharedByAll, set.GroupLimit(1)} {
		if s == nil {
			continue
		}
		keys := []string{kind.state(w.checker), "no copy"}
		// w.client, because the check function has no permission for the key "no copy".
		reply, err := stepScript.Do(t.Context(), w.client, keys,
			stepArgs(s.Program, 0, time.Time{}, 0)).AsBytes()
		if err != nil {
			t.Fatal(err)
		}
		return must(limiter.ParseReply(reply, s.Limits)).Limits[0].Used()
	}
	t.Fatal("the policy set has no shared limit")
	return 0
}

// A caller that was allowed lately no longer counts as such once its key expires: its
// check does not send the steps on shared limits.
func TestExpiryEndsRecentCaller(t *testing.T) {
	onVirtualTime(t)
	w := open(t, valkeytest.Start(t))
	start := time.Unix(1_800_000_000, 0)
	now := start
	w.Now = func() time.Time { return now }
	client := &countingClient{Client: w.client}
	w.checker = NewChecker(client, testPepper)
	w.checker.Now = w.Now
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
			t.Errorf("after %s: got %s, want %s", c.at, got, c.want)
		}
	}
}

// recentCallers remembers at most maxRecent callers, tells callers, plans and secrets
// apart, and does not allocate for a caller it remembers.
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
		t.Errorf("got %d callers in %d entries, want %d", known, r.entries.Len(), maxRecent)
	}
	last := recentCaller{subject: fmt.Sprint(3*maxRecent - 1)}
	for what, other := range map[string]recentCaller{
		"another secret": {subject: last.subject, secret: "other"},
		"another plan":   {subject: last.subject, plan: "other"},
	} {
		if allows(other, set, now) {
			t.Errorf("%s: got the same caller, want another one", what)
		}
	}
	if allows(last, &compiled.Set{Set: policy.Set{Version: 1}}, now) {
		t.Error("the caller is still remembered under a newer policy set")
	}
	if allows(last, set, now.Add(recentlyAllowed)) {
		t.Errorf("the caller is still remembered after %s", recentlyAllowed)
	}
	if n := testing.AllocsPerRun(100, func() {
		r.allow(last, rule, set, now)
		r.learn(last, rule, now, &Result{Allowed: true})
	}); n > 0 {
		t.Errorf("got %v allocations for a remembered caller, want 0", n)
	}
}

// A flood of calls by callers that may not call takes nothing from a shared limit: a
// legitimate caller is not denied.
func TestFloodsLeaveSharedLimits(t *testing.T) {
	tier.Two(t, "makes thousands of calls")
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
				revoked, banned := deniedCallers["revoked"](t, w), deniedCallers["banned"](t, w)
				_, legitimate := w.create(t, "legitimate", "free")
				waitForCalls := w.flood(t, 16, func(n int64) Call {
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
					waitForCalls(1500)
					if last = w.check(t, call(legitimate)); !last.Allowed {
						t.Fatalf("probe %d: got %s, want an allowed call", probe+1, describe(last))
					}
					if probe == 0 {
						first = last
					}
				}
				want := c.limit.Requests - c.probes*c.cost
				if got := last.Limits[1].Remaining; got != want && last.Now.Sub(first.Now) < c.limit.Window {
					t.Errorf("got %d remaining, want %d", got, want)
				}
			})
		}
	}
}

// flood makes calls that must be refused until the test ends. It returns a function that
// waits until this many further calls were made, for at most a minute.
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
				result, err := checkers[i%2].Check(ctx, next(n), nil)
				if ctx.Err() == nil && (result.Allowed || err != nil &&
					!errors.Is(err, policy.ErrUnknownKey)) {
					t.Errorf("got %s, %v, want a denial or an unknown key", describe(result), err)
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
