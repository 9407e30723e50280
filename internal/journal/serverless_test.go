package journal

import (
	"testing"

	"tidegate/internal/objects"
	"tidegate/internal/testing/s3test"
	"tidegate/internal/testing/valkeytest"
)

// On a serverless cache, with the journal in a bucket with Object Lock, everything that
// was acknowledged is restored after the cache lost all, also while the node behind its
// address changes.
func TestOnAServerlessCache(t *testing.T) {
	cache := valkeytest.StartServerless(t)
	w := open(t, cache.URL(), must(objects.Open(s3test.Start(t).Address()))(t), false)
	w.plan(t, 10)
	cache.Swap(2)
	k := w.create(t, "acme")
	w.flush(t)
	cache.Cut()
	cache.Swap(2)
	if written := w.restore(t, Options{}); written == 0 {
		t.Error("got no bucket written")
	}
	if got := must(w.keys.Get(t.Context(), k.ID))(t); got.Name != "acme" {
		t.Errorf("after the restore: got key %+v, want acme", got)
	}
	if v := must(w.keys.Audit().Verify(t.Context()))(t); !v.Good() {
		t.Errorf("verify: got %+v, want it good", v)
	}
	if len(cache.Refused()) > 0 {
		t.Errorf("a serverless cache lacks %q", cache.Refused())
	}
}
