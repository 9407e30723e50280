package answer

import (
	"testing"
	"time"

	"tidegate/internal/enforce"
)

// Retry-After is at most a day: clients sleep for days without a word, and timers of 31
// bits overflow after 24.8 days. The body has the exact wait, for a limit as for a ban.
func TestMaxRetryAfter(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		after  time.Duration
		header int64
		wait   string
	}{
		{time.Millisecond, 1, "1"},
		{day, 86_400, "86400"},
		{day + time.Millisecond, 86_400, "86401"},
		{31 * day, 86_400, "2678400"},
	} {
		for name, result := range map[string]enforce.Result{
			"limit": {Limits: []enforce.LimitState{full("1 per calendar month", c.after)}},
			"ban":   {Now: now, BannedUntil: now.Add(c.after)},
		} {
			d := To(result).Denial
			if d.RetryAfter != c.header || d.Wait != c.wait {
				t.Errorf("%s for %s: got Retry-After %d and a wait of %s, want %d and %s", name, c.after,
					d.RetryAfter, d.Wait, c.header, c.wait)
			}
		}
	}
}

// A call above one of its limits is told that it never passes, whatever else denies it,
// unless its caller is banned. A limit in shadow that is below the cost says nothing.
func TestNeverPasses(t *testing.T) {
	never, shadow := state("2 per hour"), state("2 per hour, shadow")
	never.Never, shadow.Never = true, true
	now := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		result enforce.Result
		policy string
		wait   string
	}{
		"beside another": {enforce.Result{Limits: []enforce.LimitState{full("1 per day", time.Hour), never}},
			"cost", "never"},
		"in shadow": {enforce.Result{Limits: []enforce.LimitState{full("1 per day", time.Hour), shadow}},
			"1 per day", "3600"},
		"banned": {enforce.Result{Now: now, BannedUntil: now.Add(time.Minute),
			Limits: []enforce.LimitState{never}}, "ban", "60"},
	} {
		a := To(c.result)
		if a.Denial == nil || a.Denial.Policy != c.policy || a.Denial.Violated == nil {
			t.Errorf("%s: got %+v, want a denial by %s that waits %s", name, a.Denial, c.policy, c.wait)
		}
		if c.wait == "never" && (a.Denial.Wait != c.wait || a.Denial.RetryAfter != 0 || a.RateLimit != "" ||
			a.Limited) {
			t.Errorf("%s: got %+v, want no Retry-After and no limit to observe", name, a)
		}
	}
}
