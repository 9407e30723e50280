package enforce

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

// from returns the call with a client address.
func (c Call) from(address string) Call {
	c.Address = netip.MustParseAddr(address)
	c.Network = netip.PrefixFrom(c.Address, c.Address.BitLen())
	return c
}

// to returns the call with a method and a path.
func (c Call) to(method, path string) Call {
	c.Route.Method, c.Route.Path = method, path
	return c
}

// scopes lists the scope of each limit and what remains of it, as in "key:9 route:1".
func scopes(c Result) string {
	var words []string
	for _, l := range c.Limits {
		words = append(words, fmt.Sprintf("%s:%d", l.Scope, l.Remaining))
	}
	return strings.Join(words, " ")
}

// Mode shadow counts calls and reports denials, but denies none.
func TestModes(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(1)...)
		_, secret := w.create(t, "modes", "free")
		w.save(t, func(s *policy.Set) { s.Plans[0].Mode = policy.Shadow })
		if c := w.expect(t, call(secret), "yyy"); c.WouldAllow || c.Limits[0].Mode != policy.Shadow ||
			c.RetryAfter() != 0 {
			t.Errorf("shadow: got %s, want an allowed call that would be denied", describe(c))
		}
		w.save(t, func(s *policy.Set) { s.Plans[0].Mode = policy.Enforce })
		w.expect(t, call(secret), "n")
	})
}

// Calls above an override in shadow mode pass, and the plan's limits count them.
func TestOverrideInShadowForgetsNothing(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(2)...)
		k, secret := w.create(t, "watched", "free")
		limit := perMinute(1)
		limit[0].Shadow = true
		k = must(registrytest.Override(t.Context(), w, k.ID, k.Version,
			&policy.Override{Limits: limit, Reason: "watch"}, byTest))
		w.expect(t, call(secret), "yyy")
		must(registrytest.Override(t.Context(), w, k.ID, k.Version, nil, byTest))
		w.expect(t, call(secret), "n")
	})
}

// A call takes from the limits of all scopes or from none. Retry-After is positive
// exactly for denied calls.
func TestAllScopesOrNothing(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(10)...)
		_, secret := w.create(t, "one", "free")
		_, second := w.create(t, "two", "free")
		w.save(t, func(s *policy.Set) {
			s.PerIP.Limits = perMinute(8)
			s.Global.Limits = perMinute(9)
			s.Routes = []policy.Route{
				{Name: "orders", Cost: 1, Pattern: route.Pattern{Path: "/orders/{id}"}, PerKey: perMinute(2),
					Shared: perMinute(5)},
				{Name: "reports", Cost: 3, Pattern: route.Pattern{Method: "POST", Path: "/reports"},
					PerIP: perMinute(3)},
			}
		})
		orders, reports := call(secret).from("192.0.2.1").to("GET", "/orders/7"),
			call(secret).from("192.0.2.1").to("POST", "/reports")
		for i, step := range []struct {
			call Call
			want string
		}{
			{orders, "key:9 route:1 ip:7 global:8 route-all:4"},
			{orders, "key:8 route:0 ip:6 global:7 route-all:3"},
			{orders, "key:8 route:0 denied"},
			{orders.to("GET", "/elsewhere"), "key:7 ip:5 global:6"},
			{reports, "key:4 ip:2 route-ip:0 global:3"},
			{reports, "key:4 ip:2 route-ip:0 global:3 denied"},
			{call(second).from("192.0.2.1").to("GET", "/orders/9"),
				"key:9 route:1 ip:1 global:2 route-all:2"},
			{call(second).from("192.0.2.2").to("GET", "/orders/9"),
				"key:8 route:0 ip:7 global:1 route-all:1"},
			{call(second).from("192.0.2.2").to("POST", "/reports"), "key:8 ip:7 route-ip:3 global:1 denied"},
			{orders.to("GET", "/elsewhere"), "key:3 ip:0 global:0"},
			{orders.to("GET", "/elsewhere"), "key:3 ip:0 global:0 denied"},
		} {
			c := w.check(t, step.call)
			got := scopes(c)
			if !c.Allowed {
				got += " denied"
			}
			if got != step.want {
				t.Fatalf("call %d: got %s, want %s", i, got, step.want)
			}
			if c.Allowed != (c.RetryAfter() == 0) {
				t.Errorf("call %d: allowed is %t with RetryAfter %s", i, c.Allowed, c.RetryAfter())
			}
		}
	})
}

// Deny and Allow refuse addresses, also in IPv6 form and with no address. Exempt
// addresses are not limited.
func TestAddressLists(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(1)...)
	_, secret := w.create(t, "anyone", "free")
	w.save(t, func(s *policy.Set) {
		s.Deny = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
		s.Allow = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/23"),
			netip.MustParsePrefix("2001:db8::/32")}
		s.Exempt = []netip.Prefix{netip.MustParsePrefix("2001:db8:1::/48")}
	})
	for address, refused := range map[string]bool{
		"198.51.100.7": true, "::ffff:198.51.100.7": true, "203.0.113.1": true, "198.51.101.1": false,
		"2001:db8::1": false,
	} {
		if _, err := w.checker.Check(t.Context(), call(secret).from(address), nil); errors.Is(err,
			policy.ErrRefused) != refused {
			t.Errorf("%s: got %v, want refused %t", address, err, refused)
		}
	}
	if _, err := w.checker.Check(t.Context(), call(secret), nil); !errors.Is(err, policy.ErrRefused) {
		t.Errorf("no address: got %v, want ErrRefused", err)
	}
	w.expect(t, call(secret).from("2001:db8:1::1"), "yyy")
	w.expect(t, call(secret).from("2001:db8:2::1"), "n")
}

// Callers with a token have the plan that it names, or TokenPlan. Callers with an address
// have AddressPlan. Both have a record only for an override or a ban.
func TestTokensAndAddresses(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(1)...)
		w.plan(t, "pro", perMinute(2)...)
		token := Call{Kind: policy.Token, Subject: "jwt-abc", Plan: "pro"}
		if c := w.expect(t, token, "yyn"); c.Plan != "pro" || c.KeyVersion != 0 {
			t.Errorf("got %s, want plan pro without a record", describe(c))
		}
		for _, c := range []Call{
			{Kind: policy.Token, Subject: "jwt-none"},
			{Kind: policy.Token, Subject: "jwt-odd", Plan: "gold"},
			{Kind: policy.Address, Subject: "ip-1"},
		} {
			if _, err := w.checker.Check(t.Context(), c, nil); !errors.Is(err, policy.ErrRefused) {
				t.Errorf("%+v: got %v, want ErrRefused", c, err)
			}
		}
		w.save(t, func(s *policy.Set) { s.TokenPlan, s.AddressPlan = "free", "free" })
		w.expect(t, Call{Kind: policy.Token, Subject: "jwt-none"}, "yn")
		w.expect(t, Call{Kind: policy.Address, Subject: "ip-1"}, "yn")
		k, err := w.Adopt(t.Context(), policy.Token, "jwt-none", "somebody",
			&policy.Override{Limits: perMinute(3), Reason: "more"}, byTest)
		if err != nil {
			t.Fatal(err)
		}
		if c := w.expect(t, Call{Kind: policy.Token, Subject: "jwt-none"}, "yyn"); c.Source != "override" ||
			c.Name != "somebody" {
			t.Errorf("got %s, want the override", describe(c))
		}
		must(w.Update(t.Context(), k.ID, k.Version, "key.ban", byTest, func(k *policy.Key) {
			k.Banned = time.Now().Add(time.Hour)
		}))
		if c := w.expect(t, Call{Kind: policy.Token, Subject: "jwt-none"}, "n"); c.BannedUntil.IsZero() {
			t.Errorf("got %s, want a ban", describe(c))
		}
	})
}

// A call of cost 0 takes nothing, and passes although a limit is used up.
func TestFreeRoute(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(1)...)
	_, secret := w.create(t, "healthy", "free")
	w.save(t, func(s *policy.Set) {
		s.Routes = []policy.Route{{Name: "health", Pattern: route.Pattern{Path: "/health"}}}
		s.Global.Limits = perMinute(1)
	})
	w.expect(t, call(secret).to("GET", "/health"), "yyy")
	w.expect(t, call(secret), "yn")
	w.expect(t, call(secret).to("GET", "/health"), "y")
}

// A save applies to every check that starts after the save returned, with four Checkers
// under load.
func TestSavesUnderLoad(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(1)...)
	_, secret := w.create(t, "busy", "free")
	var floor atomic.Int64 // version of the last save that returned
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		checker := NewChecker(w.client, testPepper)
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				least := floor.Load()
				c, err := checker.Check(t.Context(), call(secret), nil)
				if err != nil || c.SetVersion < least || len(c.Limits) != 1 ||
					c.Limits[0].Limit.Requests < least {
					t.Errorf("got %s, %v, want version %d or newer", describe(c), err, least)
					return
				}
			}
		})
	}
	for range 30 {
		saved := w.save(t, func(s *policy.Set) { s.Plans[0].Limits = perMinute(s.Version + 1) })
		floor.Store(saved.Version)
	}
	close(done)
	wg.Wait()
}

// Piggybacked commands are sent once, although the check is repeated with a newer policy
// set. done receives one result for each command.
func TestPiggyback(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(1)...)
	_, secret := w.create(t, "caller", "free")
	var results int
	counter := keyspace.Of("counter", "m1")
	increment := func() valkey.Completed {
		return w.client.B().Hincrby().Key(counter).Field("0").Increment(1).Build()
	}
	commands := []valkey.Completed{increment(), increment()}
	with := NewPiggyback(w.client, commands, func(r []valkey.ValkeyResult) { results += len(r) })
	for range 2 { // the first check finds a newer policy set and is repeated
		if _, err := w.checker.Check(t.Context(), call(secret), with); err != nil {
			t.Fatal(err)
		}
	}
	if n := must(w.client.Do(t.Context(),
		w.client.B().Hget().Key(counter).Field("0").Build()).AsInt64()); n != 2 || results != 2 {
		t.Errorf("got %d increments and %d results, want 2 of each", n, results)
	}
}

// Sync finishes an interrupted save. Distribute never replaces a bucket's copy by an
// older one.
func TestSyncFinishesASave(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(1)...)
	old := must(w.Set(t.Context()))
	_, secret := w.create(t, "halfway", "free")
	w.expect(t, call(secret), "yn")
	newest := *old
	newest.Version++
	newest.Plans = []policy.Plan{{Number: 1, Name: "free", Limits: perMinute(3)}}
	record := policyset.EncodeSet(newest.Version, must(json.Marshal(newest)))
	if err := w.client.Do(t.Context(),
		w.client.B().Set().Key(policyset.SetKey).Value(string(record)).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	w.expect(t, call(secret), "n")
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect(t, call(secret), "yyn")
	if err := w.Distribute(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if c := w.check(t, call(secret)); c.SetVersion != newest.Version {
		t.Errorf("after distributing an older set: got version %d, want %d", c.SetVersion, newest.Version)
	}
}

// BenchmarkCheck measures a check with its round trips: with the caller's limits alone,
// and with a limit on all callers.
func BenchmarkCheck(b *testing.B) {
	far := []limiter.Limit{{Requests: 100_000_000, Window: 10 * time.Second}}
	for _, c := range []struct {
		name   string
		global policy.Scope
	}{
		{"own", policy.Scope{}},
		{"global", policy.Scope{Limits: far}},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := open(b, valkeytest.Start(b))
			w.plan(b, "free", limiter.Limit{Requests: 1_000_000, Window: time.Hour})
			w.save(b, func(s *policy.Set) { s.Global = c.global })
			_, secret := w.create(b, "caller", "free")
			b.ReportAllocs()
			for b.Loop() {
				if result := w.check(b, call(secret)); !result.Allowed {
					b.Fatal(describe(result))
				}
			}
		})
	}
}
