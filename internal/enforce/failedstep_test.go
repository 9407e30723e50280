package enforce

import (
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// A call about which a shared limit cannot decide gives back what the caller's own
// limits, and those of its address, gave for it.
func TestFailedStepsLeaveNothingTaken(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		for name, lease := range map[string]time.Duration{"asked each time": 0, "leased": time.Second} {
			t.Run(name, func(t *testing.T) {
				w.plan(t, "free", limiter.Limit{Requests: 5, Window: time.Hour})
				w.save(t, func(s *policy.Set) {
					s.Global = policy.Scope{Limits: perMinute(1000), Lease: policy.Duration(lease)}
					s.Routes = []policy.Route{{Name: "all", Cost: 1, PerKey: perMinute(50)}}
				})
				_, secret := w.create(t, name, "free")
				state := keyspace.Of("global", "s")
				del, unreadable := w.client.B().Del().Key(state).Build(),
					w.client.B().Lpush().Key(state).Element("no state of a limit").Build()
				for _, result := range w.client.DoMulti(t.Context(), del, unreadable) {
					if err := result.Error(); err != nil {
						t.Fatal(err)
					}
				}
				for range 8 {
					if c, err := w.checker.Check(t.Context(), call(secret), nil); err == nil || c.Allowed {
						t.Fatalf("%s, %v: want an error", describe(c), err)
					}
				}
				if err := w.client.Do(t.Context(),
					w.client.B().Del().Key(state).Build()).Error(); err != nil {
					t.Fatal(err)
				}
				c := w.expect(t, call(secret), "yyyyyn")
				if c.Limits[1].Remaining != 45 {
					t.Errorf("%d of the route's 50 remain, want 45", c.Limits[1].Remaining)
				}
			})
		}
	})
}
