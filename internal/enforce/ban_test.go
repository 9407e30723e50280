package enforce

import (
	"errors"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

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
