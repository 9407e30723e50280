package enforce

import (
	"errors"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// What was read about a caller holds until the first thing that changes it by itself.
func TestHoldsUntil(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(100)...)
		k, secret := w.create(t, "caller", "free")
		if c := w.check(t, call(secret)); !c.HoldsUntil().IsZero() {
			t.Errorf("nothing is to come, but holds until %s", c.HoldsUntil())
		}
		hour := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
		k, err := w.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, func(k *policy.Key) {
			k.Expires = hour.Add(2 * time.Hour)
		})
		if err != nil {
			t.Fatal(err)
		}
		if c := w.check(t, call(secret)); !c.HoldsUntil().Equal(k.Expires) {
			t.Errorf("holds until %s, but expires at %s", c.HoldsUntil(), k.Expires)
		}
		k, err = w.SetOverride(t.Context(), k.ID, k.Version,
			&policy.Override{Limits: perMinute(5), Until: hour.Add(time.Hour), Reason: "test"}, byTest)
		if err != nil {
			t.Fatal(err)
		}
		if c := w.check(t, call(secret)); !c.HoldsUntil().Equal(k.Override.Until) {
			t.Errorf("holds until %s, but the override ends at %s", c.HoldsUntil(), k.Override.Until)
		}
		k, _, err = w.Rotate(t.Context(), k.ID, k.Version, time.Minute, byTest)
		if err != nil {
			t.Fatal(err)
		}
		if c := w.check(t, call(secret)); !c.HoldsUntil().Equal(k.Grace) {
			t.Errorf("holds until %s, but the grace ends at %s", c.HoldsUntil(), k.Grace)
		}
	})
}

// A denial repeats when nothing counts it, and nobody else's calls can end it.
func TestRepeats(t *testing.T) {
	counting := []limiter.Limit{{Requests: 1, Window: time.Minute, CountDenied: true}}
	for name, c := range map[string]struct {
		change func(*policy.Set)
		want   bool
	}{
		"the caller's limit": {func(*policy.Set) {}, true},
		"the route's, per caller": {func(s *policy.Set) {
			s.Routes = []policy.Route{{Name: "r", Cost: 1, PerKey: perMinute(1)}}
		}, true},
		"with others that admit": {func(s *policy.Set) { s.PerIP.Limits = perMinute(9) }, true},
		"counts denied calls":    {func(s *policy.Set) { s.Plans[0].Limits = counting }, false},
		"others' count denied": {func(s *policy.Set) {
			s.Global.Limits = []limiter.Limit{{Requests: 9, Window: time.Minute, CountDenied: true}}
		}, true},
		"has a candidate": {func(s *policy.Set) { s.Plans[0].Candidate = perMinute(3) }, false},
		"may ban": {func(s *policy.Set) {
			s.Bans = &policy.Bans{Denials: 50, Window: policy.Duration(time.Minute),
				Base: policy.Duration(time.Minute), Cap: policy.Duration(time.Hour)}
		}, false},
		"bans": {func(s *policy.Set) {
			s.Bans = &policy.Bans{Denials: 2, Window: policy.Duration(time.Minute),
				Base: policy.Duration(time.Minute), Cap: policy.Duration(time.Hour)}
		}, true},
		"the address's limit": {func(s *policy.Set) {
			s.Plans[0].Limits, s.PerIP.Limits = perMinute(9), perMinute(1)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			onSingleServers(t, func(t *testing.T, w *world) {
				w.plan(t, "free", perMinute(1)...)
				w.saveOld(t, c.change)
				_, secret := w.create(t, "caller", "free")
				caller := call(secret).from("192.0.2.1")
				if first := w.check(t, caller); first.Repeats {
					t.Errorf("an allowed call repeats: %s", describe(first))
				}
				if last := w.expect(t, caller, "nnn"); last.Repeats != c.want {
					t.Errorf("repeats is %t: %s", last.Repeats, describe(last))
				}
			})
		})
	}
}

// A ban's Retry-After counts from the server's clock, also where no limit was looked at.
func TestRetryAfterOfABan(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(1)...)
		k, secret := w.create(t, "caller", "free")
		until := time.Now().UTC().Add(time.Hour).Truncate(time.Second)
		if _, err := w.Update(t.Context(), k.ID, k.Version, "key.ban", byTest, func(k *policy.Key) {
			k.Banned = until
		}); err != nil {
			t.Fatal(err)
		}
		c := w.check(t, call(secret))
		if !c.Now.Add(c.RetryAfter()).Equal(until) || c.RetryAfter() > time.Hour {
			t.Errorf("banned until %s, retry after %s from %s", until, c.RetryAfter(), c.Now)
		}
	})
}

// A RouteMatch lists without Valkey the limits that Check would apply to a call.
func TestRouteMatch(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(9)...)
		_, secret := w.create(t, "caller", "free")
		c := call(secret).from("192.0.2.1")
		if _, err := w.checker.RouteMatch(c); err == nil {
			t.Error("match of no Set")
		}
		w.save(t, func(s *policy.Set) {
			s.PerIP.Limits, s.Global = perMinute(8), policy.Scope{Limits: perMinute(7), Mode: policy.Shadow}
			s.Routes = []policy.Route{
				{Name: "all", Cost: 2, PerKey: perMinute(6), Shared: perMinute(5)},
				{Name: "free", Cost: 0, Pattern: route.Pattern{Path: "/health"}, PerKey: perMinute(4)},
			}
			s.Deny = append(s.Deny, c.from("192.0.2.9").Network)
			s.Exempt = append(s.Exempt, c.from("192.0.2.8").Network)
		})
		w.check(t, c)
		match, err := w.checker.RouteMatch(c)
		if err != nil || match.Rule != "all" || match.Cost != 2 ||
			match.SetVersion != w.checker.Set().Version {
			t.Fatalf("%+v, %v", match, err)
		}
		result := w.check(t, c)
		limits := w.checker.RuleLimits(c)
		for i, b := range limits {
			if got := result.Limits[i+1]; got.Scope != b.Scope || got.Mode != b.Mode ||
				got.Limit != b.Limits[0] {
				t.Errorf("the match has %+v where the check has %+v", b, got)
			}
		}
		if len(limits) != 4 || len(result.Limits) != 5 {
			t.Errorf("%d limits of rules, %d in all", len(limits), len(result.Limits))
		}
		for name, unlimited := range map[string]Call{"free": c.to("GET", "/health"),
			"exempt": c.from("192.0.2.8")} {
			if match, err := w.checker.RouteMatch(unlimited); err != nil || match.Cost != 0 ||
				len(w.checker.RuleLimits(unlimited)) != 0 {
				t.Errorf("%s: %+v, %v", name, match, err)
			}
		}
		if _, err := w.checker.RouteMatch(c.from("192.0.2.9")); !errors.Is(err, policy.ErrRefused) {
			t.Errorf("a denied address: %v", err)
		}
	})
}
