package enforce

import (
	"errors"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
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
		"with others that matchCall": {func(s *policy.Set) { s.PerIP.Limits = perMinute(9) }, true},
		"counts denied calls":        {func(s *policy.Set) { s.Plans[0].Limits = counting }, false},
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

// A ban by the policy is reported, and lifted as one by hand is, with all that would make
// the next one longer or sooner.
func TestUnban(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", limiter.Limit{Requests: 1, Window: time.Hour})
		k, secret := w.create(t, "busy", "free")
		other, _ := w.create(t, "calm", "free")
		set := w.save(t, func(s *policy.Set) {
			s.Bans = &policy.Bans{
				Denials: 2,
				Window:  policy.Duration(time.Hour),
				Base:    policy.Duration(10 * time.Minute),
				Cap:     policy.Duration(24 * time.Hour),
			}
		})
		for round, calls := range []string{"ynn", "nn"} {
			w.expect(t, call(secret), calls)
			c := w.check(t, call(secret))
			if left := time.Until(c.BannedUntil); left <= 0 || left > 10*time.Minute {
				t.Fatalf("round %d: banned for %s more", round, left)
			}
			until, err := w.BannedUntil(t.Context(), set, []policy.Key{other, k})
			if err != nil || !until[0].IsZero() || !until[1].Equal(c.BannedUntil) {
				t.Fatalf("told %s, %v; want %s", until, err, c.BannedUntil)
			}
			if current, err := w.Unban(t.Context(), k.ID, k.Version+1, byTest); !errors.Is(err,
				policy.ErrConflict) || current.Version != k.Version {
				t.Fatalf("of another version: %+v, %v", current, err)
			}
			if k, err = w.Unban(t.Context(), k.ID, k.Version, byTest); err != nil {
				t.Fatal(err)
			}
		}
		k, err := w.Update(t.Context(), k.ID, k.Version, "key.ban", byTest, func(k *policy.Key) {
			k.Banned = time.Now().Add(time.Hour)
		})
		if err != nil {
			t.Fatal(err)
		}
		if until, err := w.BannedUntil(t.Context(), set, []policy.Key{k}); err != nil ||
			!until[0].Equal(k.Banned) {
			t.Errorf("by hand: %s, %v", until, err)
		}
		if k, err = w.Unban(t.Context(), k.ID, k.Version, byTest); err != nil || !k.Banned.IsZero() {
			t.Errorf("%+v, %v", k, err)
		}
		w.expect(t, call(secret), "n") // the hour's one call was made
	})
}

// Without a policy that bans, what an earlier one left behind holds nobody off, and
// nobody hears that it does.
func TestBansThatAreOver(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", limiter.Limit{Requests: 1, Window: time.Hour})
		k, secret := w.create(t, "busy", "free")
		w.save(t, func(s *policy.Set) {
			s.Bans = &policy.Bans{Denials: 2, Window: policy.Duration(time.Hour),
				Base: policy.Duration(10 * time.Minute), Cap: policy.Duration(time.Hour)}
		})
		w.expect(t, call(secret), "ynnn")
		set := w.save(t, func(s *policy.Set) { s.Bans = nil })
		if c := w.check(t, call(secret)); !c.BannedUntil.IsZero() {
			t.Fatalf("still banned: %s", c.BannedUntil)
		}
		until, err := w.BannedUntil(t.Context(), set, []policy.Key{k})
		e, explainErr := w.explainer.Explain(t.Context(), set, k, call(secret))
		if err != nil || explainErr != nil || !until[0].IsZero() || !e.Result.BannedUntil.IsZero() {
			t.Errorf("told %s and %s: %v, %v", until, e.Result.BannedUntil, err, explainErr)
		}
	})
}
