package main

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// Retry-After is exact, by the clock that decides and with denials that are answered here
// among the others: a caller who calls all the time passes at that instant and not
// before, and every denial until then names the same one.
func TestRetryAfterIsExact(t *testing.T) {
	const window = 300 * time.Millisecond
	limits := map[string][]limiter.Limit{
		"several limits": {{Requests: 9, Window: window}, {Requests: 5, Window: window / 2},
			{Requests: 7, Window: window, Algorithm: limiter.Counter}},
	}
	for _, algorithm := range limiter.Algorithms() {
		limits[fmt.Sprint(algorithm)] = []limiter.Limit{{Requests: 7, Window: window, Algorithm: algorithm}}
	}
	for name, list := range limits {
		for _, cache := range []time.Duration{0, 50 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s, answered here for %s", name, cache), func(t *testing.T) {
				f := newFunction(t, policy.Plan{Name: "free", Limits: list})
				c := f.checker.config
				c.DenyCache = cache
				f.checker = newChecker(c, slog.New(slog.DiscardHandler), discardedMetrics(t))
				for _, cost := range []int64{1, 3} {
					f.price(t, cost)
					f.callUntilItPasses(t, f.key(t, "free"))
				}
			})
		}
	}
}

// price makes every call cost so much.
func (f *function) price(t *testing.T, cost int64) {
	t.Helper()
	set, err := f.set.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set.Routes = []policy.Route{{Name: "all", Cost: cost, Pattern: route.Pattern{}}}
	if _, err := f.set.SaveSet(t.Context(), *set, tester); err != nil {
		t.Fatal(err)
	}
}

func (f *function) callUntilItPasses(t *testing.T, secret apikey.Secret) {
	t.Helper()
	checked := f.call(t, secret)
	for checked.Allowed {
		checked = f.call(t, secret)
	}
	free := checked.Now.Add(checked.RetryAfter())
	for calls := 1; ; calls++ {
		before := f.serverTime(t)
		checked = f.call(t, secret)
		after := f.serverTime(t)
		switch {
		case checked.Allowed && after.Before(free), !checked.Allowed && !before.Before(free),
			checked.Degraded:
			t.Fatalf("call %d, between %s and %s, is allowed: %t; want that from %s on", calls, before, after,
				checked.Allowed, free)
		case !checked.Allowed && !checked.Now.Add(checked.RetryAfter()).Equal(free):
			t.Fatalf("call %d gets a Retry-After of %s, those before %s", calls,
				checked.Now.Add(checked.RetryAfter()), free)
		case checked.Allowed:
			return
		}
	}
}

func (f *function) serverTime(t *testing.T) time.Time {
	t.Helper()
	parts, err := f.admin.Do(t.Context(), f.admin.B().Time().Build()).AsIntSlice()
	if err != nil || len(parts) != 2 {
		t.Fatal(parts, err)
	}
	return time.Unix(parts[0], parts[1]*1000)
}
