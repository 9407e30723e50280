package registry_test

import (
	"errors"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

// A repeat gets the secret of the first request from the log alone. A key that was deleted
// is not made again within a day; later it is another key with another secret.
func TestRepeat(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(10)...)
	edit := byTest
	edit.Repeat = &registry.Repeat{By: "token:x", Key: "one", Body: []byte("{}")}
	n := policy.NewKey{Name: "a", Env: "live", Plan: "free"}
	k, secret, err := w.Create(t.Context(), n, edit)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := registrytest.Open(t, storetest.Connect(t, valkeytest.Start(t)), w.folder, testPepper)
	again, same, err := elsewhere.Create(t.Context(), n, edit)
	if !errors.Is(err, registry.ErrRepeated) || again.ID != k.ID || same.Reveal() != secret.Reveal() ||
		again.Version != k.Version {
		t.Fatalf("with another Valkey: got %+v, %v, want %+v and its secret", again, err, k)
	}
	set, err := w.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := elsewhere.Authenticate(t.Context(), set, same.Reveal()); err != nil {
		t.Errorf("the secret of the repeat: %v", err)
	}
	if err := w.Delete(t.Context(), k.ID, byTest); err != nil {
		t.Fatal(err)
	}
	if _, got, err := w.Create(t.Context(), n, edit); !errors.Is(err, registry.ErrDeleted) ||
		got.Reveal() != "" {
		t.Errorf("after the deletion: got %v, want ErrDeleted", err)
	}
	w.Now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	if _, got, err := w.Create(t.Context(), n, edit); err != nil || got.Reveal() == secret.Reveal() {
		t.Errorf("two days later: got %v, want another secret", err)
	}
}
