package answer

import (
	"testing"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// denied returns the denial of a limit of a scope that frees a call after a time.
func denied(l limiter.Limit, scope string, after time.Duration) enforce.Result {
	u := limiter.Usage{Limit: l, RetryAfter: after}
	return enforce.Result{Limits: enforce.LimitStates([]limiter.Usage{u}, scope, policy.Enforce)}
}

// Retry-After of a limit that callers share is never early, at most half a window and a
// minute late, and varies. That of a caller's own limit is exact.
func TestSpread(t *testing.T) {
	for _, scope := range []string{policy.ScopeKey, policy.ScopeRoute, policy.ScopeIP, policy.ScopeRouteIP,
		policy.ScopeGlobal, policy.ScopeRouteAll, policy.ScopeGroup} {
		own := scope == policy.ScopeKey || scope == policy.ScopeRoute
		for window, late := range map[time.Duration]int64{10 * time.Second: 5, time.Hour: 60} {
			seen := map[int64]bool{}
			for range 500 {
				a := To(denied(limiter.Limit{Requests: 10, Window: window}, scope, 3*time.Second))
				seen[a.Denial.RetryAfter] = true
				if got := a.Denial.RetryAfter; got < 3 || got > 3+late || own && got != 3 {
					t.Fatalf("%s, %s: got Retry-After %d, want 3 to %d", scope, window, got, 3+late)
				}
			}
			if !own && len(seen) < 3 {
				t.Errorf("%s, %s: got %v, want a spread", scope, window, seen)
			}
		}
	}
}

// 200 obedient callers of a limit of 10 per 10 seconds pass with fewer than half of the
// calls, and far fewer at once, than if all were told the same instant.
func TestSpreadOfManyCallers(t *testing.T) {
	play := func(scope string) (calls, most int) {
		var model limiter.Model
		limits := []limiter.Limit{{Requests: 10, Window: 10 * time.Second, Algorithm: limiter.Counter}}
		start := time.Unix(1_800_000_000, 0)
		next := make([]int64, 200) // second of each caller's next call; -1 once it has passed
		for second, open := int64(0), len(next); open > 0; second++ {
			now := 0
			for i, at := range next {
				if at != second {
					continue
				}
				now++
				since := time.Duration(second)*time.Second + time.Duration(i)*time.Millisecond
				d, err := model.Take(start.Add(since), limits, 1)
				if err != nil {
					t.Fatal(err)
				}
				if next[i] = -1; d.Allowed {
					open--
					continue
				}
				next[i] = second + To(denied(limits[0], scope, d.RetryAfter())).Denial.RetryAfter
			}
			calls += now
			if second > 0 {
				most = max(most, now)
			}
		}
		return calls, most
	}
	together, peak := play(policy.ScopeKey)
	calls, most := play(policy.ScopeGlobal)
	t.Logf("without a spread %d calls, at most %d in a second; with it %d and %d", together, peak, calls,
		most)
	if calls > together/2 || most > peak*2/3 {
		t.Errorf("got %d calls and at most %d in a second, want half of %d and two thirds of %d", calls, most,
			together, peak)
	}
}
