package enforce

import (
	"errors"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/testing/registrytest"
)

// HoldsUntil is the first instant at which the record changes without an edit: the end of
// the key, of an override or of a rotation's grace.
func TestHoldsUntil(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(100)...)
		k, secret := w.create(t, "caller", "free")
		if c := w.check(t, call(secret)); !c.HoldsUntil().IsZero() {
			t.Errorf("no change to come: got %s, want zero", c.HoldsUntil())
		}
		hour := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
		k, err := w.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, func(k *policy.Key) {
			k.Expires = hour.Add(2 * time.Hour)
		})
		if err != nil {
			t.Fatal(err)
		}
		if c := w.check(t, call(secret)); !c.HoldsUntil().Equal(k.Expires) {
			t.Errorf("got %s, want the key's expiry %s", c.HoldsUntil(), k.Expires)
		}
		k, err = registrytest.Override(t.Context(), w, k.ID, k.Version,
			&policy.Override{Limits: perMinute(5), Until: hour.Add(time.Hour), Reason: "test"}, byTest)
		if err != nil {
			t.Fatal(err)
		}
		if c := w.check(t, call(secret)); !c.HoldsUntil().Equal(k.Override.Until) {
			t.Errorf("got %s, want the override's end %s", c.HoldsUntil(), k.Override.Until)
		}
		k, _, err = w.Rotate(t.Context(), k.ID, k.Version, time.Minute, byTest)
		if err != nil {
			t.Fatal(err)
		}
		if c := w.check(t, call(secret)); !c.HoldsUntil().Equal(k.Grace) {
			t.Errorf("got %s, want the end of the grace %s", c.HoldsUntil(), k.Grace)
		}
	})
}

// Repeats is set for a denial that nothing counts.
func TestRepeats(t *testing.T) {
	counting := []limiter.Limit{{Requests: 1, Window: time.Minute, CountDenied: true}}
	for name, c := range map[string]struct {
		change func(*policy.Set)
		want   bool
	}{
		"denied by the caller's limit": {func(*policy.Set) {}, true},
		"denied by the route's limit per caller": {func(s *policy.Set) {
			s.Routes = []policy.Route{{Name: "r", Cost: 1, PerKey: perMinute(1)}}
		}, true},
		"shared limit with room":        {func(s *policy.Set) { s.PerIP.Limits = perMinute(9) }, true},
		"own limit counts denied calls": {func(s *policy.Set) { s.Plans[0].Limits = counting }, false},
		"denial counts towards a ban": {func(s *policy.Set) {
			s.Bans = &policy.Bans{Denials: 50, Window: policy.Duration(time.Minute),
				Base: policy.Duration(time.Minute), Cap: policy.Duration(time.Hour)}
		}, false},
		"banned": {func(s *policy.Set) {
			s.Bans = &policy.Bans{Denials: 2, Window: policy.Duration(time.Minute),
				Base: policy.Duration(time.Minute), Cap: policy.Duration(time.Hour)}
		}, true},
		"denied by the address's limit": {func(s *policy.Set) {
			s.Plans[0].Limits, s.PerIP.Limits = perMinute(9), perMinute(1)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			onSingleServers(t, func(t *testing.T, w *world) {
				w.plan(t, "free", perMinute(1)...)
				w.save(t, c.change)
				_, secret := w.create(t, "caller", "free")
				caller := call(secret).from("192.0.2.1")
				if first := w.check(t, caller); first.Repeats {
					t.Errorf("allowed call: got Repeats in %s", describe(first))
				}
				if last := w.expect(t, caller, "nnn"); last.Repeats != c.want {
					t.Errorf("got Repeats %t, want %t: %s", last.Repeats, c.want, describe(last))
				}
			})
		})
	}
}

// RetryAfter of a ban counts from the server's clock, although no limit was checked.
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
			t.Errorf("got RetryAfter %s from %s, want the end of the ban %s", c.RetryAfter(), c.Now, until)
		}
	})
}

// BannedUntil reports automatic bans and bans by hand. Unban lifts both, and resets the
// denials and the level that count towards the next automatic ban.
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
				t.Fatalf("round %d: banned for another %s, want up to 10 minutes", round, left)
			}
			until, err := w.BannedUntil(t.Context(), set, []policy.Key{other, k})
			if err != nil || !until[0].IsZero() || !until[1].Equal(c.BannedUntil) {
				t.Fatalf("BannedUntil is %s, %v, want %s", until, err, c.BannedUntil)
			}
			if current, err := w.Unban(t.Context(), k.ID, k.Version+1, byTest); !errors.Is(err,
				policy.ErrConflict) || current.Version != k.Version {
				t.Fatalf("Unban of another version: got %+v, %v, want ErrConflict", current, err)
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
			t.Errorf("ban by hand: got %s, %v, want %s", until, err, k.Banned)
		}
		if k, err = w.Unban(t.Context(), k.ID, k.Version, byTest); err != nil || !k.Banned.IsZero() {
			t.Errorf("after Unban: got %+v, %v, want no ban", k, err)
		}
		w.expect(t, call(secret), "n") // the limit is used up for the hour
	})
}

// Once the policy has no automatic bans, earlier automatic bans neither deny calls nor
// are reported.
func TestBansWithoutBanPolicy(t *testing.T) {
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
			t.Fatalf("got a ban until %s, want none", c.BannedUntil)
		}
		until, err := w.BannedUntil(t.Context(), set, []policy.Key{k})
		e, explainErr := w.explainer.Explain(t.Context(), set, k, call(secret))
		if err != nil || explainErr != nil || !until[0].IsZero() || !e.Result.BannedUntil.IsZero() {
			t.Errorf("BannedUntil is %s, %v and in Explain %s, %v, want no ban", until, err,
				e.Result.BannedUntil, explainErr)
		}
	})
}
