package enforce

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

// Explain returns what the next Check returns, names the winning route, and takes
// nothing. The permissions of the check function suffice.
func TestExplainAgreesWithCheck(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.save(t, func(s *policy.Set) {
			s.Plans = []policy.Plan{{Name: "free", Limits: perMinute(7)}}
			s.Routes = []policy.Route{
				{Name: "orders", Pattern: route.Pattern{Method: "GET", Path: "/orders"}, Cost: 3,
					PerKey: perMinute(6), Shared: perMinute(100)},
			}
			s.PerIP = policy.Scope{Limits: perMinute(50)}
		})
		key, secret := w.create(t, "acme", "free")
		c := call(secret)
		c.Address = netip.MustParseAddr("192.0.2.7")
		c.Network = netip.MustParsePrefix("192.0.2.7/32")
		for i := range 4 {
			set, err := w.Set(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var e Explanation
			for _, explainer := range []*Checker{w.explainer, w.checker, w.explainer} {
				if e, err = explainer.Explain(t.Context(), set, key, c); err != nil {
					t.Fatal(err)
				}
			}
			got := w.check(t, c)
			if e.Result.Allowed != got.Allowed || e.Result.Rule != "orders" || e.Result.Cost != 3 ||
				len(e.Result.Limits) != len(got.Limits) {
				t.Fatalf("call %d: Explain returned %+v, Check %+v", i, e.Result, got)
			}
			for j, l := range e.Result.Limits {
				if l.Scope != got.Limits[j].Scope {
					t.Errorf("call %d: limit %d has scope %s in Explain and %s in Check", i, j, l.Scope,
						got.Limits[j].Scope)
				}
			}
			if d := e.Result.RetryAfter() - got.RetryAfter(); d < 0 || d > time.Minute ||
				got.Allowed != (i < 2) {
				t.Errorf("call %d: RetryAfter is %s in Explain and %s in Check", i, e.Result.RetryAfter(),
					got.RetryAfter())
			}
			if len(e.Matches) != 1 || !e.Matches[0].Won {
				t.Errorf("got matches %+v, want one that won", e.Matches)
			}
		}
	})
}

// Explain works for callers on one shard while the other shards do not answer.
func TestExplainWithoutAShard(t *testing.T) {
	servers := valkeytest.StartProxiedCluster(t, 3)
	w := open(t, servers[0].URL()+"?cluster=true")
	w.plan(t, "free", perMinute(7)...)
	set, first := must(w.Set(t.Context())), w.client.Nodes()[servers[0].Address()]
	onFirst := func(id string) bool { // other shards answer MOVED
		return first.Do(t.Context(), first.B().Get().Key(keyspace.Record(id)).Build()).Error() == nil
	}
	key, secret := w.create(t, "caller", "free")
	for !onFirst(key.ID) {
		key, secret = w.create(t, "caller", "free")
	}
	servers[1].Silence()
	servers[2].Silence()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	e, err := w.explainer.Explain(ctx, set, key, call(secret))
	if err != nil || scopes(e.Result) != "key:7" {
		t.Errorf("got %s, %v, want key:7", scopes(e.Result), err)
	}
}

// Explain reports why a caller may not call: a denied address, a revoked or expired key,
// a ban. Exempt addresses are reported as such.
func TestExplainRefusals(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.save(t, func(s *policy.Set) {
			s.Plans = []policy.Plan{{Name: "free",
				Limits: []limiter.Limit{{Requests: 5, Window: time.Minute}}}}
			s.Deny = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
			s.Exempt = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
		})
		set, err := w.Set(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		key, secret := w.create(t, "acme", "free")
		explain := func(k policy.Key, address string) Explanation {
			t.Helper()
			c := call(secret)
			c.Address = netip.MustParseAddr(address)
			e, err := w.explainer.Explain(t.Context(), set, k, c)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		revoked, expired, banned := key, key, key
		revoked.Status = policy.Revoked
		expired.Expires = time.Now().Add(-time.Minute)
		banned.Banned = time.Now().Add(time.Hour)
		if e := explain(key, "192.0.2.1"); !e.Result.Allowed || e.Refused != "" || e.Exempt {
			t.Errorf("valid key: got %+v, want an allowed call", e)
		}
		if e := explain(key, "203.0.113.9"); !e.Result.Allowed || !e.Exempt {
			t.Errorf("exempt address: got %+v, want an allowed, exempt call", e)
		}
		for name, e := range map[string]Explanation{
			"denied address": explain(key, "198.51.100.7"), "revoked": explain(revoked, "192.0.2.1"),
			"expired": explain(expired, "192.0.2.1"),
		} {
			if e.Result.Allowed || e.Refused == "" {
				t.Errorf("%s: got %+v, want a refusal", name, e)
			}
		}
		if e := explain(banned, "192.0.2.1"); e.Result.Allowed || e.Result.BannedUntil.IsZero() {
			t.Errorf("banned: got %+v, want a ban", e)
		}
	})
}

// A HEAD call costs what the rule for GET says and is recorded under that rule. Explain
// names the reason.
func TestHeadTakesTheCostOfGet(t *testing.T) {
	for _, first := range []string{"GET", "HEAD"} {
		w := open(t, valkeytest.Start(t))
		w.plan(t, "free", perMinute(50)...)
		w.save(t, func(s *policy.Set) {
			s.Routes = []policy.Route{
				{Name: "all", Cost: 1, Pattern: route.Pattern{Path: "/{proxy+}"}},
				{Name: "report", Cost: 50, Pattern: route.Pattern{Method: "GET", Path: "/report"}},
			}
		})
		key, secret := w.create(t, "reader", "free")
		w.expect(t, call(secret).to(first, "/report"), "yn")
		for _, method := range []string{"HEAD", "GET"} {
			c := w.expect(t, call(secret).to(method, "/report"), "n")
			e, err := w.explainer.Explain(t.Context(), must(w.Set(t.Context())), key,
				call(secret).to(method, "/report"))
			if err != nil {
				t.Fatal(err)
			}
			want := "Applies: it has the literal \"report\" as segment 1, unlike * /{proxy+}"
			if method == "HEAD" {
				want += "; HEAD follows the rule for GET"
			}
			if c.Rule != "report" || c.Cost != 50 || e.Result.Rule != "report" || e.Result.Cost != 50 ||
				e.Result.Allowed ||
				e.Matches[0].Reason != want {
				t.Errorf("%s after %s: got %s, explained as %+v, want rule report at cost 50", method, first,
					describe(c), e)
			}
		}
	}
}

// A user without the right to any command that writes can explain a call and read the use
// of keys and groups.
func TestLooksNeedNoRightToWrite(t *testing.T) {
	url := valkeytest.Start(t)
	w := open(t, url)
	w.save(t, func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "free", Limits: perMinute(7), PerGroup: perMinute(9)}}
		s.Routes = []policy.Route{{Name: "orders", Pattern: route.Pattern{Path: "/orders"}, Cost: 2,
			PerKey: perMinute(6), Shared: perMinute(100)}}
		s.Global = policy.Scope{Limits: perMinute(50)}
	})
	w.group = "acme"
	key, secret := w.create(t, "one", "free")
	c := call(secret).to("GET", "/orders")
	w.expect(t, c, "y")
	reader := storetest.Connect(t, valkeytest.As(t, url, "reader", []string{"on", "~*", "+@all", "-@write"}))
	if err := reader.Do(t.Context(), reader.B().Set().Key("k").Value("v").Build()).Error(); err == nil {
		t.Fatal("the reader may write")
	}
	keys, set := registry.NewStore(reader, testPepper), must(w.Set(t.Context()))
	e := must(NewChecker(reader, testPepper).Explain(t.Context(), set, key, c))
	if want := must(w.explainer.Explain(t.Context(), set, key, c)); scopes(e.Result) != scopes(want.Result) ||
		scopes(e.Result) != "key:5 route:4 global:48 route-all:98 group:7" {
		t.Errorf("explain: got %s, want %s", scopes(e.Result), scopes(want.Result))
	}
	for name, d := range map[string]limiter.Decision{
		"key":   must(keys.Usage(t.Context(), set, []policy.Key{key}))[0],
		"group": must(keys.GroupUsage(t.Context(), "acme", set.Plans))[0],
	} {
		if d.Limits[0].Used() != 2 {
			t.Errorf("%s: got %d used, want 2", name, d.Limits[0].Used())
		}
	}
}
