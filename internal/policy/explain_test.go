package policy

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/route"
)

// Explain says what the very next Check answers, names the route that wins, and takes nothing.
func TestExplainAgreesWithCheck(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.save(t, func(s *Set) {
			s.Plans = []Plan{{Name: "free", Limits: perMinute(7)}}
			s.Routes = []Route{
				{Name: "orders", Pattern: route.Pattern{Method: "GET", Path: "/orders"}, Cost: 3, PerKey: perMinute(6), Shared: perMinute(100)},
			}
			s.PerIP = Scope{Limits: perMinute(50)}
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
			var e Explained
			for range 3 { // however often one looks
				if e, err = w.Explain(t.Context(), set, key, c); err != nil {
					t.Fatal(err)
				}
			}
			got := w.check(t, c)
			if e.Checked.Allowed != got.Allowed || e.Checked.Rule != "orders" || e.Checked.Cost != 3 || len(e.Checked.Limits) != len(got.Limits) {
				t.Fatalf("call %d: explained %+v, checked %+v", i, e.Checked, got)
			}
			for j, l := range e.Checked.Limits {
				if l.Scope != got.Limits[j].Scope {
					t.Errorf("call %d: limit %d is on %s, checked on %s", i, j, l.Scope, got.Limits[j].Scope)
				}
			}
			if d := e.Checked.RetryAfter() - got.RetryAfter(); d < 0 || d > time.Minute || got.Allowed != (i < 2) {
				t.Errorf("call %d: retry after %s, checked %s", i, e.Checked.RetryAfter(), got.RetryAfter())
			}
			if len(e.Matches) != 1 || !e.Matches[0].Won {
				t.Errorf("matches %+v", e.Matches)
			}
		}
	})
}

// Whoever may not call is told so, whatever the limits.
func TestExplainRefusals(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.save(t, func(s *Set) {
			s.Plans = []Plan{{Name: "free", Limits: []limiter.Limit{{Requests: 5, Window: time.Minute}}}}
			s.Deny = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
			s.Exempt = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
		})
		set, err := w.Set(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		key, secret := w.create(t, "acme", "free")
		explain := func(k Key, address string) Explained {
			t.Helper()
			c := call(secret)
			c.Address = netip.MustParseAddr(address)
			e, err := w.Explain(t.Context(), set, k, c)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		revoked, expired, banned := key, key, key
		revoked.Status = Revoked
		expired.Expires = time.Now().Add(-time.Minute)
		banned.Banned = time.Now().Add(time.Hour)
		if e := explain(key, "192.0.2.1"); !e.Checked.Allowed || e.Refused != "" || e.Exempt {
			t.Errorf("plain: %+v", e)
		}
		if e := explain(key, "203.0.113.9"); !e.Checked.Allowed || !e.Exempt {
			t.Errorf("exempt: %+v", e)
		}
		for name, e := range map[string]Explained{
			"denied address": explain(key, "198.51.100.7"), "revoked": explain(revoked, "192.0.2.1"), "expired": explain(expired, "192.0.2.1"),
		} {
			if e.Checked.Allowed || e.Refused == "" {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if e := explain(banned, "192.0.2.1"); e.Checked.Allowed || e.Checked.BannedUntil.IsZero() {
			t.Errorf("banned: %+v", e)
		}
	})
}
