package registry_test

import (
	"errors"
	"testing"

	"tidegate/internal/policy"
	"tidegate/internal/testing/valkeytest"
)

// Keys are created in one change. One that is wrong, or exists, keeps no other from it.
func TestCreateMany(t *testing.T) {
	s := open(t, valkeytest.Start(t))
	s.plan(t, "free", perMinute(2)...)
	s.ForeignKeys = true
	const value = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd"
	old := policy.NewKey{Name: "old", Env: "live", Plan: "free", Value: value}
	keys := []policy.NewKey{
		{Name: "one", Env: "live", Plan: "free", Group: "acme"}, {Name: "two", Env: "live", Plan: "none"},
		old, old, {Name: "three", Env: "No", Plan: "free"}, {Name: "four", Env: "live", Plan: "free",
			Group: "acme"},
	}
	created, err := s.CreateMany(t.Context(), keys, byTest)
	if err != nil || len(created) != len(keys) {
		t.Fatal(created, err)
	}
	for i, want := range []string{"", "invalid", "", "conflict", "invalid", ""} {
		got := ""
		if _, bad := errors.AsType[*policy.InvalidError](created[i].Err); bad {
			got = "invalid"
		} else if errors.Is(created[i].Err, policy.ErrConflict) {
			got = "conflict"
		}
		if got != want {
			t.Errorf("key %d: got %v, want %q", i, created[i].Err, want)
		}
	}
	first := created[0]
	for _, i := range []int{0, 2, 5} {
		k, err := s.Get(t.Context(), created[i].Key.ID)
		if err != nil || k.Name != keys[i].Name || k.Version != first.Key.Version {
			t.Errorf("key %d: got %+v, %v, want %s of change %d", i, k, err, keys[i].Name, first.Key.Version)
		}
	}
	set, err := s.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if k, err := s.Authenticate(t.Context(), set, first.Secret.Reveal()); err != nil || k.ID != first.Key.ID {
		t.Errorf("its secret: got %+v, %v", k, err)
	}
	again, err := s.CreateMany(t.Context(), keys[2:3], byTest)
	if err != nil || !errors.Is(again[0].Err, policy.ErrConflict) || again[0].Key.ID != created[2].Key.ID {
		t.Errorf("again: got %+v, %v, want a conflict", again, err)
	}
}
