package registry_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"tidegate/internal/registry"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

const foreignValue = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd"

func newForeign(plan, value string) policy.NewKey {
	return policy.NewKey{Name: "old", Env: "live", Plan: plan, Value: value}
}

// A key with a given value works like a generated one, and its text is not stored. A
// rotation gives it a generated secret under the same id.
func TestForeignKey(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(9)...)
		w.ForeignKeys = true
		k, secret, err := w.Create(t.Context(), newForeign("free", foreignValue), byTest)
		if err != nil || !k.Foreign || k.ID != secret.ID() || !secret.Foreign() {
			t.Fatalf("create: got %+v, %v; want a foreign key with the id of its secret", k, err)
		}
		if stored, err := w.Get(t.Context(), k.ID); err != nil || !stored.Foreign {
			t.Errorf("get: got %+v, %v; want a foreign key", stored, err)
		}
		w.expect(t, call(secret), "y")
		other := must(apikey.NewKey(testPepper).Foreign(foreignValue + "x"))
		for _, rejected := range []apikey.Secret{other, must(apikey.Renew("live", k.ID))} {
			if result, err := w.checker.Check(t.Context(), call(rejected)); !errors.Is(err,
				policy.ErrUnknownKey) {
				t.Errorf("%s: got %+v, %v; want ErrUnknownKey", rejected, result, err)
			}
		}
		read := w.client.B().Hvals().Key(keyspace.BucketOf(k.ID).Records()).Build()
		stored, err := w.client.Do(t.Context(), read).AsStrSlice()
		shown := must(w.Change(t.Context(), uint64(k.Version)))
		if err != nil || strings.Contains(fmt.Sprint(stored, string(shown.Subjects[0].After)),
			foreignValue[:20]) {
			t.Errorf("the record or the audit contains the value, %v", err)
		}
		again, _, err := w.Create(t.Context(), newForeign("free", foreignValue), byTest)
		if !errors.Is(err, policy.ErrConflict) || again.ID != k.ID {
			t.Errorf("the same value again: got %+v, %v; want id %s and ErrConflict", again, err, k.ID)
		}
		if listed := w.keys(t, registry.Query{}); len(listed) != 1 {
			t.Errorf("got %d listed keys, want 1", len(listed))
		}
		rotated, next, err := w.Rotate(t.Context(), k.ID, k.Version, time.Hour, byTest)
		if err != nil || rotated.Foreign || next.Foreign() || next.ID() != k.ID {
			t.Fatalf("rotate: got %+v, %v; want a generated secret with the same id", rotated, err)
		}
		w.expect(t, call(next), "y")
		w.expect(t, call(secret), "y") // in its grace
	})
}

// Create refuses values that cannot be a key of another system, and writes nothing.
func TestForeignKeyRefused(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(9)...)
		wantRefused := func(value, want string) {
			t.Helper()
			var invalid *policy.InvalidError
			k, _, err := w.Create(t.Context(), newForeign("free", value), byTest)
			if !errors.As(err, &invalid) || k.ID != "" || invalid.Fields[0].Field != "value" ||
				!strings.Contains(invalid.Fields[0].Message, want) ||
				strings.Contains(err.Error(), value) {
				t.Errorf("got %+v, %v; want an error about value with %q", k, err, want)
			}
		}
		wantRefused(foreignValue, "FOREIGN_KEYS=true")
		w.ForeignKeys = true
		wantRefused("short-value", "20 to 256")
		wantRefused(must(apikey.Generate("live")).Reveal(), "Tidegate")
		if listed := w.keys(t, registry.Query{}); len(listed) != 0 {
			t.Errorf("got %d listed keys, want none", len(listed))
		}
	})
}

// A rotated key keeps its counts. Its previous secret is valid during the grace only.
func TestRotate(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(4)...)
		k, first := w.create(t, "rotated", "free")
		w.expect(t, call(first), "y")
		k, second, err := w.Rotate(t.Context(), k.ID, k.Version, time.Hour, byTest)
		if err != nil || second.ID() != first.ID() || second.Reveal() == first.Reveal() || k.Grace.IsZero() {
			t.Fatalf("rotate: got %+v, %v; want another secret with the same id, and a grace", k, err)
		}
		w.expect(t, call(first), "y")
		if c := w.expect(t, call(second), "y"); c.Limits[0].Remaining != 1 {
			t.Errorf("after two calls of 4 and a rotation: got remaining %d, want 1", c.Limits[0].Remaining)
		}
		_, third, err := w.Rotate(t.Context(), k.ID, k.Version, 0, byTest)
		if err != nil {
			t.Fatal(err)
		}
		for name, secret := range map[string]apikey.Secret{"the first": first,
			"the second, without grace": second} {
			if _, err := w.checker.Check(t.Context(), call(secret)); !errors.Is(err,
				policy.ErrUnknownKey) {
				t.Errorf("%s: got %v, want ErrUnknownKey", name, err)
			}
		}
		w.expect(t, call(third), "yn")
	})
}
