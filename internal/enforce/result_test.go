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

// Unban lifts a ban, unless the key has another version.
func TestUnban(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(9)...)
		k, secret := w.create(t, "busy", "free")
		k = must(w.Update(t.Context(), k.ID, k.Version, "key.ban", byTest, func(k *policy.Key) {
			k.Banned = time.Now().Add(time.Hour)
		}))
		w.expect(t, call(secret), "n")
		if current, err := w.Unban(t.Context(), k.ID, k.Version+1, byTest); !errors.Is(err,
			policy.ErrConflict) || current.Version != k.Version {
			t.Fatalf("Unban of another version: got %+v, %v, want ErrConflict", current, err)
		}
		if k, err := w.Unban(t.Context(), k.ID, k.Version, byTest); err != nil || !k.Banned.IsZero() {
			t.Errorf("after Unban: got %+v, %v, want no ban", k, err)
		}
		w.expect(t, call(secret), "y")
	})
}
