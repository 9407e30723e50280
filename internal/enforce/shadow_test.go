package enforce

import (
	"fmt"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// shadowPerMinute returns a limit in shadow mode.
func shadowPerMinute(requests int64) limiter.Limit {
	return limiter.Limit{Requests: requests, Window: time.Minute, Shadow: true}
}

// Every list may have both limits in shadow mode and enforced limits. A call above a
// shadow limit passes, and only the other limits are charged. A shadow limit never binds.
func TestShadowWithEnforced(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", append(perMinute(5), shadowPerMinute(2))...)
		_, secret := w.create(t, "one", "free")
		w.save(t, func(s *policy.Set) {
			s.PerIP.Limits = append(perMinute(6), shadowPerMinute(1))
			s.Global.Limits = append(perMinute(7), shadowPerMinute(4))
			s.Routes = []policy.Route{{Name: "r", Cost: 1, Pattern: route.Pattern{Path: "/r"},
				PerKey: []limiter.Limit{shadowPerMinute(3)}, Shared: perMinute(8)}}
		})
		routed := call(secret).from("192.0.2.1").to("GET", "/r")
		for i, want := range []string{
			"key:4 key:1 route:2 ip:5 ip:0 global:6 global:3 route-all:7 would true",
			"key:3 key:0 route:1 ip:4 ip:0 global:5 global:2 route-all:6 would false",
			"key:2 key:0 route:0 ip:3 ip:0 global:4 global:1 route-all:5 would false",
			"key:1 key:0 route:0 ip:2 ip:0 global:3 global:0 route-all:4 would false",
			"key:0 key:0 route:0 ip:1 ip:0 global:2 global:0 route-all:3 would false",
		} {
			c := w.check(t, routed)
			if got := fmt.Sprintf("%s would %t", scopes(c), c.WouldAllow); got != want || !c.Allowed {
				t.Fatalf("call %d: got %s, allowed %t, want %s, allowed true", i, got, c.Allowed, want)
			}
			if l, found := c.ShadowDenial(); found == c.WouldAllow || found && !l.Limit.Shadow {
				t.Errorf("call %d: got limit %+v, found %t, want one in shadow mode, found %t", i, l, found,
					!c.WouldAllow)
			}
			if b, found := c.Binding(); !found || b.Limit.Shadow {
				t.Errorf("call %d: got binding limit %+v, want an enforced one", i, b)
			}
			for _, l := range c.Limits {
				if l.Limit.Shadow != (l.Mode == policy.Shadow) {
					t.Errorf("call %d: %s %s has the wrong mode %s", i, l.Scope, l.Limit, l.Mode)
				}
			}
		}
		c := w.check(t, routed)
		if c.Allowed || c.RetryAfter() != c.Limits[0].RetryAfter || scopes(c) != "key:0 key:0 route:0" {
			t.Errorf("above the enforced limit: got %s, want a denial by it", describe(c))
		}
	})
}

// A plan whose limits are all in shadow mode denies nothing.
func TestAllInShadow(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", shadowPerMinute(1), shadowPerMinute(2))
		_, secret := w.create(t, "one", "free")
		for i, want := range []string{"key:0 key:1", "key:0 key:0", "key:0 key:0"} {
			c := w.check(t, call(secret))
			if !c.Allowed || c.WouldAllow != (i == 0) || scopes(c) != want || c.RetryAfter() != 0 {
				t.Errorf("call %d: got %s, want an allowed call with %s", i, describe(c), want)
			}
			if _, found := c.Binding(); found {
				t.Errorf("call %d: got a binding limit, want none", i)
			}
		}
	})
}

// A settlement gives back to a shadow limit only what that limit took. A charge above the
// reserved cost goes to shadow limits only if it fits, and they do not bound it.
func TestSettleWithShadowLimits(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", append(perMinute(100), shadowPerMinute(10))...)
		w.saveSettledRoute(t, 4)
		_, secret := w.create(t, "chatty", "free")
		w.save(t, func(s *policy.Set) { s.Global.Limits = append(perMinute(90), shadowPerMinute(10)) })
		chat := call(secret).to("POST", "/chat")
		remaining := func(want string) {
			t.Helper()
			set, k := must(w.Set(t.Context())), must(w.Get(t.Context(), secret.ID()))
			e, err := w.explainer.Explain(t.Context(), set, k, call(secret))
			if err != nil {
				t.Fatal(err)
			}
			if got := scopes(e.Result); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		first, second := w.check(t, chat), w.check(t, chat)
		above := w.check(t, chat)
		if !above.Allowed || above.WouldAllow {
			t.Fatalf("third call: got %s, want allowed above the shadow limit", describe(above))
		}
		remaining("key:88 key:2 global:78 global:2")
		w.settle(t, above.Reservation, 0)
		remaining("key:92 key:2 global:82 global:2")
		w.settle(t, first.Reservation, 1)
		remaining("key:95 key:5 global:85 global:5")
		if s := w.settle(t, second.Reservation, 9); s.Partial {
			t.Errorf("charge of 5: got %+v, want all charged", s)
		}
		remaining("key:90 key:0 global:80 global:0")
		if s := w.settle(t, w.check(t, chat).Reservation, 30); s.Partial {
			t.Errorf("charge of 26: got %+v, want all charged", s)
		}
		remaining("key:60 key:0 global:50 global:0")
	})
}

// A denial by a shared limit gives back only what each limit took. A shadow limit that
// was exceeded took nothing.
func TestGiveBackWithShadowLimits(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", append(perMinute(50), shadowPerMinute(3))...)
		_, one := w.create(t, "one", "free")
		_, other := w.create(t, "other", "free")
		w.save(t, func(s *policy.Set) { s.Global.Limits = append(perMinute(5), shadowPerMinute(9)) })
		for range 4 {
			w.check(t, call(one))
		}
		w.check(t, call(other))
		for range 3 {
			c := w.check(t, call(one))
			if c.Allowed || scopes(c) != "key:46 key:0 global:0 global:4" {
				t.Fatalf("got %s, want a denial that leaves 46, 0, 0 and 4", describe(c))
			}
		}
	})
}
