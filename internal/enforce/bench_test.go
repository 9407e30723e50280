package enforce

import (
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/testing/valkeytest"
)

// BenchmarkCheck measures a check with its round trip: of the caller's limits alone, and
// with a limit of all callers, asked each time or leased.
func BenchmarkCheck(b *testing.B) {
	far := []limiter.Limit{{Requests: 100_000_000, Window: 10 * time.Second}}
	for _, c := range []struct {
		name   string
		global policy.Scope
	}{
		{"own", policy.Scope{}},
		{"global", policy.Scope{Limits: far}},
		{"leased", policy.Scope{Limits: far, Lease: policy.Duration(time.Second)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := open(b, valkeytest.Start(b))
			w.plan(b, "free", limiter.Limit{Requests: 1_000_000, Window: time.Hour})
			w.save(b, func(s *policy.Set) { s.Global = c.global })
			_, secret := w.create(b, "caller", "free")
			b.ReportAllocs()
			for b.Loop() {
				if checked := w.check(b, call(secret)); !checked.Allowed {
					b.Fatal(describe(checked))
				}
			}
		})
	}
}
