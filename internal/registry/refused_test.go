package registry_test

import (
	"testing"
	"tidegate/internal/registry"

	"tidegate/internal/policy"
	"tidegate/internal/testing/registrytest"
)

// A refused change writes nothing and is not recorded.
func TestRefusedChangesLeaveNothing(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(5)...)
		k, secret := w.create(t, "steady", "free")
		w.expect(t, call(secret), "yy")
		before := must(w.Log().Verify(t.Context()))
		set := must(w.Set(t.Context()))
		set.Version--
		invalid := *set
		invalid.Version++
		invalid.Plans = nil
		noActor := registry.Edit{Reason: "no actor"}
		for name, change := range map[string]func() error{
			"update of an old version": func() error {
				return second(w.Update(t.Context(), k.ID, 7, "key.edit", byTest, func(*policy.Key) {}))
			},
			"update without an actor": func() error {
				return second(w.Update(t.Context(), k.ID, k.Version, "key.edit", noActor,
					func(k *policy.Key) { k.Name = "renamed" }))
			},
			"invalid update": func() error {
				return second(w.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, func(k *policy.Key) {
					k.Name = ""
				}))
			},
			"update of nothing": func() error {
				return second(w.Update(t.Context(), "nothing", 1, "key.edit", byTest, func(*policy.Key) {}))
			},
			"override without a reason": func() error {
				return second(registrytest.Override(t.Context(), w.Store, k.ID,
					&policy.Override{}, byTest))
			},
			"revocation, old version": func() error {
				return second(w.Update(t.Context(), k.ID, 7, registry.KeyRevoke, byTest,
					func(k *policy.Key) { k.Status = policy.Revoked }))
			},
			"reset without an actor": func() error { return second(w.Reset(t.Context(), k.ID, noActor)) },
			"reset of nothing": func() error {
				return second(w.Reset(t.Context(), "nothing", byTest))
			},
			"deletion without an actor": func() error { return w.Delete(t.Context(), k.ID, noActor) },
			"deletion of nothing":       func() error { return w.Delete(t.Context(), "nothing", byTest) },
			"adoption of a caller with a record": func() error {
				return second(w.Adopt(t.Context(), policy.Token, k.ID, "again", nil, byTest))
			},
			"an old version of the Set": func() error { return second(w.SaveSet(t.Context(), *set, byTest)) },
			"a Set without a plan that keys have": func() error {
				return second(w.SaveSet(t.Context(), invalid, byTest))
			},
			"a reason of a million runes": func() error {
				return second(w.Reset(t.Context(), k.ID,
					registry.Edit{By: byTest.By, Reason: string(make([]rune, 1_000_000))}))
			},
		} {
			if err := change(); err == nil {
				t.Errorf("%s: got no error", name)
			}
			if n := must(w.Log().Verify(t.Context())); n != before {
				t.Errorf("%s: got %d changes, want %d", name, n, before)
			}
		}
		if got := must(w.Get(t.Context(), k.ID)); text(got) != text(k) {
			t.Errorf("got %+v, want %+v", got, k)
		}
	})
}

func second[T any](_ T, err error) error { return err }
