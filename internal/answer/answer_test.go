package answer

import (
	"testing"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
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
		limit := limiter.Limit{Requests: 1, Calendar: limiter.Month}
		for name, result := range map[string]enforce.Result{
			"limit": denied(limit, policy.ScopeKey, c.after),
			"ban":   {Now: now, BannedUntil: now.Add(c.after)},
		} {
			d := To(result).Denial
			if d.RetryAfter != c.header || d.Wait != c.wait {
				t.Errorf("%s for %s: got Retry-After %d and a wait of %s, want %d and %s", name, c.after,
					d.RetryAfter, d.Wait, c.header, c.wait)
			}
		}
	}
	if d := Impossible(); d.RetryAfter != 0 || d.Wait != "never" {
		t.Errorf("got %+v, want no Retry-After, and a wait of never", d)
	}
}
