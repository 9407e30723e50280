package enforce

import (
	"errors"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

// Remembering a caller does not delay an edit. The first check after the edit applies it,
// and so does the check after that.
func TestKnownCallersObeyEdits(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(100)...)
		w.plan(t, "pro", perMinute(1000)...)
		limit := func(n int64) func(*testing.T, *Result, error) {
			return func(t *testing.T, c *Result, err error) {
				t.Helper()
				if err != nil || len(c.Limits) != 1 || c.Limits[0].Limit.Requests != n {
					t.Errorf("got %s, %v, want a limit of %d", describe(*c), err, n)
				}
			}
		}
		unknown := func(t *testing.T, _ *Result, err error) {
			t.Helper()
			if !errors.Is(err, policy.ErrUnknownKey) {
				t.Errorf("got %v, want ErrUnknownKey", err)
			}
		}
		banned := func(t *testing.T, c *Result, err error) {
			t.Helper()
			if err != nil || c.Allowed || c.BannedUntil.IsZero() {
				t.Errorf("got %s, %v, want a ban", describe(*c), err)
			}
		}
		update := func(change func(*policy.Key)) func(policy.Key) {
			return func(k policy.Key) {
				must(w.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, change))
			}
		}
		for name, c := range map[string]struct {
			edit func(policy.Key)
			want func(*testing.T, *Result, error)
		}{
			"plan of the key": {update(func(k *policy.Key) { k.Plan = "pro" }), limit(1000)},
			"limit of a plan": {func(policy.Key) { w.plan(t, "free", perMinute(77)...) }, limit(77)},
			"another plan":    {func(policy.Key) { w.plan(t, "other", perMinute(5)...) }, limit(77)},
			"ban": {update(func(k *policy.Key) {
				k.Banned = time.Now().Add(time.Hour)
			}), banned},
			"expiry": {update(func(k *policy.Key) {
				k.Expires = time.Now().Add(-time.Second)
			}), unknown},
			"revocation": {func(k policy.Key) {
				must(registrytest.Revoke(t.Context(), w, k.ID, k.Version, byTest))
			}, unknown},
			"deletion": {func(k policy.Key) {
				check(t, w.Delete(t.Context(), k.ID, byTest))
			}, unknown},
			"rotation without grace": {func(k policy.Key) {
				_, _, err := w.Rotate(t.Context(), k.ID, k.Version, 0, byTest)
				check(t, err)
			}, unknown},
			"override": {func(k policy.Key) {
				o := &policy.Override{Limits: perMinute(9), Reason: "a test",
					Until: time.Now().Add(time.Hour)}
				must(registrytest.Override(t.Context(), w, k.ID, k.Version, o, byTest))
			}, limit(9)},
		} {
			w.plan(t, "free", perMinute(77)...)
			k, secret := w.create(t, name, "free")
			w.expect(t, call(secret), "yy")
			if w.remembered(k, secret) == nil {
				t.Fatalf("%s: the Checker does not remember the caller", name)
			}
			c.edit(k)
			for range 2 {
				result, err := w.checker.Check(t.Context(), call(secret), nil)
				c.want(t, &result, err)
			}
		}
	})
}

// A remembered caller is refused from the instant its key expires.
func TestKnownCallersExpire(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(1000)...)
	k, secret := w.create(t, "soon", "free")
	expires := time.Now().Add(2 * time.Second)
	must(w.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, func(k *policy.Key) {
		k.Expires = expires
	}))
	w.expect(t, call(secret), "y")
	for known := w.remembered(k, secret) != nil; ; {
		result, err := w.checker.Check(t.Context(), call(secret), nil)
		if errors.Is(err, policy.ErrUnknownKey) && known {
			return
		}
		if err != nil || !known || !result.Now.Before(expires) {
			t.Fatalf("got %v at %s, remembered %v, want ErrUnknownKey from %s on", err, result.Now, known,
				expires)
		}
	}
}

// A check of a remembered caller reads only the format and version of the copy of the
// plans, and still reports the caller's name, plan and limits.
func TestKnownCallersAreReadInPart(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(100)...)
	k, secret := w.create(t, "reader", "free")
	w.expect(t, call(secret), "y")
	before := w.expect(t, call(secret), "y")
	copyKey := policyset.CopyKey(keyspace.BucketOf(k.ID))
	text, err := w.client.Do(t.Context(), w.client.B().Get().Key(copyKey).Build()).ToString()
	check(t, err)
	// Cut the copy off after its format and version.
	check(t, w.client.Do(t.Context(), w.client.B().Set().Key(copyKey).Value(text[:5]).Build()).Error())
	after := w.expect(t, call(secret), "y")
	if after.Limits[0].Remaining != before.Limits[0].Remaining-1 || after.Name != "reader" ||
		after.Plan != "free" ||
		after.KeyVersion != before.KeyVersion || after.Source != "plan" {
		t.Errorf("got %s after %s, want one call fewer remaining and all else equal", describe(after),
			describe(before))
	}
}

// remembered returns what the checker remembers of a key; nil for nothing.
func (w *world) remembered(k policy.Key, secret apikey.Secret) *knownCaller {
	hash := testPepper.Hash(secret)
	return w.checker.known.find(k.ID, string(hash[:]), w.checker.Set().Version)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
