package decide

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

func TestMain(m *testing.M) { os.Exit(valkeytest.Run(m)) }

var (
	pepper = apikey.Pepper(strings.Repeat("pepper!!", 4))
	byTest = registry.Edit{By: registry.Actor{Kind: "user", Name: "tester"}, Reason: "a test"}
)

const (
	callerCache = time.Hour
	denyCache   = 2 * time.Second
)

// fixture is a Decider on a server with policies and keys. Its clock stands still.
type fixture struct {
	*Decider
	time    *clock
	t       *testing.T
	checker *enforce.Checker
	client  valkey.Client
	store   *registry.Store
	secrets map[string]apikey.Secret
	down    bool // Valkey does not answer
	asked   int  // checks that Valkey was asked for
}

func (f *fixture) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	if f.down {
		return enforce.Result{}, context.DeadlineExceeded
	}
	f.asked++
	return f.checker.Check(ctx, call)
}

func (f *fixture) Loaded() *enforce.Checker { return f.checker }

func newFixture(t *testing.T, set policy.Set) *fixture {
	t.Helper()
	client := storetest.Connect(t, valkeytest.Start(t))
	f := &fixture{t: t, time: newClock(), client: client, checker: enforce.NewChecker(client, pepper),
		store: registrytest.New(t, client, pepper), secrets: map[string]apikey.Secret{}}
	f.checker.Now = f.time.now
	f.Decider = NewDecider(f, Settings{CallerCache: callerCache, DenyCache: denyCache, Sectors: 1},
		f.time.now)
	registrytest.Put(t, f.store, byTest, set)
	return f
}

func parse(t *testing.T, texts ...string) (all []limits.Limit) {
	t.Helper()
	for _, text := range texts {
		l, err := limits.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// key creates a key of the plan free.
func (f *fixture) key(name string, change ...func(*policy.NewKey)) policy.Key {
	f.t.Helper()
	n := policy.NewKey{Name: name, Env: "test", Plan: "free"}
	for _, c := range change {
		c(&n)
	}
	k, secret, err := f.store.Create(f.t.Context(), n, byTest)
	if err != nil {
		f.t.Fatal(err)
	}
	f.secrets[name] = secret
	return k
}

func (f *fixture) edit(k policy.Key, change func(*policy.Key)) policy.Key {
	f.t.Helper()
	k, err := registrytest.Update(f.t.Context(), f.store, k.ID, registry.KeyEdit, byTest, change)
	if err != nil {
		f.t.Fatal(err)
	}
	return k
}

func callWith(secret apikey.Secret) enforce.Call {
	return enforce.Call{Kind: policy.APIKey, Subject: secret.ID(), Secret: secret,
		Route: route.Call{API: "api", Stage: "prod", Method: "GET", Path: "/orders"}}
}

// expect makes calls, and compares each answer with a letter: y for allowed, n for denied,
// x for refused.
func (f *fixture) expect(call enforce.Call, want string) (last enforce.Result) {
	f.t.Helper()
	got := ""
	for range want {
		result, _, err := f.Decide(f.t.Context(), call)
		switch last = result; {
		case err != nil:
			got += "x"
		case result.Allowed:
			got += "y"
		default:
			got += "n"
		}
	}
	if got != want {
		f.t.Errorf("got %s, want %s", got, want)
	}
	return last
}

// A plan's Degraded determines what happens to its callers without Valkey.
func TestDegradedModes(t *testing.T) {
	for mode, want := range map[policy.Degraded]string{"": "nnn", policy.Closed: "nnn", policy.Open: "yyy",
		policy.Local: "yyn"} {
		p := policy.Plan{Name: "free", Degraded: mode, Limits: parse(t, "4 per hour")}
		if mode == policy.Local {
			p.Share = 50
		}
		f := newFixture(t, policy.Set{Plans: []policy.Plan{p}})
		k := f.key("Ada")
		f.expect(callWith(f.secrets["Ada"]), "y")
		f.down = true
		last := f.expect(callWith(f.secrets["Ada"]), want)
		if !last.Degraded || last.Name != "Ada" || last.Plan != "free" || last.ID != k.ID ||
			last.KeyVersion != k.Version || last.SetVersion != k.Version-1 {
			t.Errorf("%q: got %+v, want the caller's name, plan, ID and versions", mode, last)
		}
	}
}

// A caller that Valkey did not verify lately, with exactly this secret, is denied under
// every plan.
func TestOnlyVerifiedCallersPass(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*fixture, policy.Key)
		want    string
	}{
		"never seen": {func(*fixture, policy.Key) {}, "n"},
		"known":      {func(f *fixture, _ policy.Key) { f.expect(callWith(f.secrets["one"]), "y") }, "y"},
		"within the lifetime": {func(f *fixture, _ policy.Key) {
			f.expect(callWith(f.secrets["one"]), "y")
			f.time.advance(callerCache - 1)
		}, "y"},
		"after the lifetime": {func(f *fixture, _ policy.Key) {
			f.expect(callWith(f.secrets["one"]),
				"y")
			f.time.advance(callerCache)
		}, "n"},
		"verified again": {func(f *fixture, _ policy.Key) {
			f.expect(callWith(f.secrets["one"]), "y")
			f.time.advance(callerCache / 2)
			f.expect(callWith(f.secrets["one"]), "y")
			f.time.advance(callerCache / 2)
		}, "y"},
		"another secret": {func(f *fixture, k policy.Key) {
			f.expect(callWith(f.secrets["one"]), "y")
			f.secrets["one"], _ = apikey.Renew("test", k.ID)
		}, "n"},
		"another secret refused": {func(f *fixture, k policy.Key) {
			f.expect(callWith(f.secrets["one"]), "y")
			other, _ := apikey.Renew("test", k.ID)
			f.expect(callWith(other), "x")
		}, "y"},
		"revoked": {func(f *fixture, k policy.Key) {
			f.expect(callWith(f.secrets["one"]), "y")
			f.edit(k, func(k *policy.Key) { k.Status = policy.Revoked })
			f.expect(callWith(f.secrets["one"]), "x")
		}, "n"},
		"banned": {func(f *fixture, k policy.Key) {
			f.expect(callWith(f.secrets["one"]), "y")
			f.edit(k, func(k *policy.Key) { k.Banned = time.Now().Add(time.Hour) })
			f.expect(callWith(f.secrets["one"]), "n")
		}, "n"},
		"its record ended": {func(f *fixture, k policy.Key) {
			f.edit(k, func(k *policy.Key) { k.Expires = time.Now().Add(time.Minute) })
			f.expect(callWith(f.secrets["one"]), "y")
			f.time.advance(time.Minute)
		}, "n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, policy.Set{Plans: []policy.Plan{{Name: "free", Degraded: policy.Open}}})
			k := f.key("one")
			c.prepare(f, k)
			f.down = true
			f.expect(callWith(f.secrets["one"]), c.want)
		})
	}
}

// An address has no secret to verify. One that this process does not know passes if the
// plan of addresses is open, unless Valkey refused it or its record has changed since. A
// token must have been verified with the plan that it names.
func TestCallersWithoutASecret(t *testing.T) {
	address := enforce.Call{Kind: policy.Address, Subject: "address"}
	token := enforce.Call{Kind: policy.Token, Subject: "token", Plan: "free"}
	for _, degraded := range []policy.Degraded{policy.Open, policy.Closed} {
		t.Run(string(degraded), func(t *testing.T) {
			f := newFixture(t, policy.Set{AddressPlan: "free", Plans: []policy.Plan{
				{Name: "free", Degraded: degraded}, {Name: "pro", Degraded: degraded}}})
			want := map[policy.Degraded]string{policy.Open: "y", policy.Closed: "n"}[degraded]
			f.expect(callWith(f.secretOf("one")), "y") // the policy set is known
			f.down = true
			f.expect(address, want)
			f.expect(token, "n")
			f.down = false
			f.time.advance(time.Minute)
			f.expect(address, "y")
			f.expect(token, "y")
			f.down = true
			f.expect(token, want)
			pro := token
			pro.Plan = "nothing"
			if _, _, err := f.Decide(t.Context(), pro); err == nil {
				t.Error("a token with a plan that does not exist passed")
			}
			f.time.advance(2 * callerCache)
			f.expect(address, want)
			f.expect(token, "n")
		})
	}
}

func (f *fixture) secretOf(name string) apikey.Secret {
	f.key(name)
	return f.secrets[name]
}

// Without Valkey, each process applies its share of all limits, shared ones too, and of its
// own limits first. A later outage continues the counts.
func TestSharesWithoutValkey(t *testing.T) {
	f := newFixture(t, policy.Set{
		Plans: []policy.Plan{{Name: "free", Degraded: policy.Local, Share: 50, Limits: parse(t, "8 per hour",
			"1,000 per hour, each group", "5 per hour, on GET /dear, shadow")}},
		Limits: parse(t, "12 per hour, together", "4 per hour, on GET /dear, each caller"),
		Routes: []limits.Route{{Name: "dear", Match: []route.Pattern{{Path: "/very/dear"}},
			Cost: limits.Costs{Units: map[string]int64{limits.Cost: 5}}}},
	})
	one, two := callWith(f.secretOf("one")), callWith(f.secretOf("two"))
	f.expect(one, "y")
	f.expect(two, "y")
	f.down = true
	f.expect(one, "yyyynn")
	f.expect(two, "yyn") // six together
	f.down = false
	f.time.advance(time.Minute)
	f.expect(one, "y")
	f.down = true
	if r := f.expect(one, "n"); r.RetryAfter() <= 0 || r.RetryAfter() > time.Hour {
		t.Errorf("Retry-After is %s", r.RetryAfter())
	}
	f.time.advance(time.Hour)
	f.down = false
	f.expect(one, "y")
	f.down = true
	dear := one
	dear.Route.Path = "/very/dear"
	if r := f.expect(dear, "n"); r.Never() || r.RetryAfter() != time.Second {
		t.Errorf("a cost above the share: %+v, want a wait for Valkey", r)
	}
	dear.Route.Path = "/dear"
	if r := f.expect(dear, "yyn"); r.WouldAllow {
		t.Errorf("got %+v", r)
	}
}

// Without Valkey, the lists of routes of the key and its plan that were known last apply.
func TestAccessWithoutValkey(t *testing.T) {
	patterns := func(paths ...string) (all []route.Pattern) {
		for _, path := range paths {
			all = append(all, route.Pattern{Path: path})
		}
		return all
	}
	f := newFixture(t, policy.Set{Plans: []policy.Plan{{Name: "free", Degraded: policy.Open,
		Opens: patterns("/orders", "/health")}}})
	f.key("one", func(n *policy.NewKey) { n.Opens = patterns("/orders", "/admin") })
	call := callWith(f.secrets["one"])
	f.expect(call, "y")
	f.down = true
	for path, open := range map[string]bool{"/orders": true, "/health": false, "/admin": false,
		"/else": false} {
		call.Route.Path = path
		result, _, err := f.Decide(t.Context(), call)
		var refusal *policy.RefusedError
		if open && (err != nil || !result.Allowed) ||
			!open && (!errors.As(err, &refusal) || refusal.Cause != cause.Access || !refusal.Verified) {
			t.Errorf("%s: got %+v, %v, want allowed %t or refused for the route", path, result, err, open)
		}
	}
}

// Denials are repeated from memory after ten in a row, until the lifetime or Retry-After has
// passed, for the limit's callers alone.
func TestDenialsAreRepeated(t *testing.T) {
	f := newFixture(t, policy.Set{
		Plans: []policy.Plan{{Name: "free", Limits: parse(t, "3 per hour", "1 per hour, on GET /other")}},
		Limits: parse(t, "5 per hour, together", "4 per hour, on GET /by/{x}, each {x}",
			"1 per hour, on GET /count, each caller, denied calls count"),
		Routes: []limits.Route{{Name: "dear", Match: []route.Pattern{{Path: "/dear"}},
			Cost: limits.Costs{Units: map[string]int64{limits.Cost: 2}}}},
	})
	call := callWith(f.secretOf("one"))
	f.expect(call, "yyy")
	f.expect(call, strings.Repeat("n", repeatAfter))
	asked := f.asked
	last := f.expect(call, "nnn")
	if f.asked != asked || !last.Repeats || last.ID != call.Subject || last.Plan != "free" {
		t.Errorf("Valkey was asked %d times, got %+v", f.asked-asked, last)
	}
	before := last.RetryAfter()
	f.time.advance(time.Second)
	last = f.expect(call, "n")
	if after := last.RetryAfter(); after != before-time.Second || f.asked != asked {
		t.Errorf("Retry-After went from %s to %s in a second", before, after)
	}
	f.time.advance(denyCache)
	f.expect(call, "n")
	if f.asked != asked+1 {
		t.Errorf("Valkey was asked %d times after the lifetime, want once", f.asked-asked)
	}
	other := callWith(f.secretOf("two")) // has counts of its own, and 5 together
	f.expect(other, "yyn")
	counting := callWith(f.secretOf("three"))
	counting.Route.Path = "/count"
	f.expect(counting, strings.Repeat("n", repeatAfter))
	asked = f.asked
	f.expect(counting, "nn") // each is counted
	if f.asked != asked+2 {
		t.Errorf("Valkey was asked %d times, want each time", f.asked-asked)
	}
	f.expect(other, strings.Repeat("n", repeatAfter))
	asked = f.asked
	four := callWith(f.secretOf("four"))
	f.expect(four, "n") // a caller that is not verified yet
	f.expect(four, "n")
	if f.asked != asked+1 {
		t.Errorf("Valkey was asked %d times for a verified caller of a full limit", f.asked-asked-1)
	}
}

// A call that may not be made is refused, whatever denials are remembered.
func TestClosedRoutesAreNotDeniedFromMemory(t *testing.T) {
	f := newFixture(t, policy.Set{Plans: []policy.Plan{{Name: "free", Limits: parse(t, "1 per hour"),
		Opens: []route.Pattern{{Path: "/orders"}}}}})
	call := callWith(f.secretOf("one"))
	f.expect(call, "y"+strings.Repeat("n", repeatAfter+1))
	call.Route.Path = "/closed"
	f.expect(call, "x")
}

// The cache of denials is bounded.
func TestDenialCacheIsBounded(t *testing.T) {
	c := newDenialCache(time.Second, time.Now)
	for i := range 2 * maxEntries {
		c.learn(time.Now(), enforce.Result{Repeats: true, Limits: []enforce.LimitState{{
			CountKey: fmt.Sprint(i), RetryAfter: time.Second}}})
	}
	if c.entries.Len() != maxEntries {
		t.Errorf("%d entries, want %d", c.entries.Len(), maxEntries)
	}
}

// One of 256 buckets lost its records. Calls with made-up keys of that bucket do not open the
// circuit for callers of other buckets.
func TestUnknownKeysOfALostBucket(t *testing.T) {
	for _, sectors := range []int{1, 16} {
		t.Run(fmt.Sprint(sectors, " sectors"), func(t *testing.T) {
			f := newFixture(t, policy.Set{Plans: []policy.Plan{{Name: "free"}}})
			f.breaker = newBreaker(sectors, f.time.now)
			good := callWith(f.secretOf("good"))
			f.expect(good, "y")
			lost := keyspace.BucketOf(good.Subject) ^ 1
			records := lost.Records()
			if err := f.client.Do(t.Context(), f.client.B().Del().Key(records).Build()).Error(); err != nil {
				t.Fatal(err)
			}
			for sent := 0; sent < 8; {
				unknown, err := apikey.Generate("test")
				if err != nil {
					t.Fatal(err)
				}
				if keyspace.BucketOf(unknown.ID()) == lost {
					sent++
					_, _, _ = f.Decide(t.Context(), callWith(unknown))
				}
			}
			if r := f.expect(good, "y"); r.Degraded {
				t.Errorf("after: got %+v, want a call allowed by Valkey", r)
			}
		})
	}
}

// A denial is repeated with the limits of the call alone, and not to a caller that may have
// left the plan.
func TestRepeatedDenialsFollowTheCaller(t *testing.T) {
	f := newFixture(t, policy.Set{
		Plans: []policy.Plan{{Name: "free", Limits: parse(t, "3 per hour", "9 per hour, on GET /orders",
			"5 per hour, together")}, {Name: "pro"}},
	})
	f.key("one")
	two := f.key("two")
	one := callWith(f.secrets["one"])
	f.expect(one, "yyy"+strings.Repeat("n", repeatAfter))
	one.Route.Path = "/else"
	if r := f.expect(one, "n"); len(r.Limits) != 1 || r.Limits[0].On != "" {
		t.Errorf("a call of another route is denied with %+v", r.Limits)
	}
	other := callWith(f.secrets["two"])
	f.expect(other, "yy"+strings.Repeat("n", repeatAfter+1))
	f.edit(two, func(k *policy.Key) { k.Plan = "pro" })
	third := callWith(f.secretOf("three"))
	f.expect(third, "n")
	f.time.advance(denyCache - 1)
	f.expect(third, "n") // the shared limit is still known to deny
	f.time.advance(2)
	f.expect(other, "y")
}
