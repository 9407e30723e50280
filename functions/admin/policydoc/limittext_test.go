package policydoc

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/limiter"
)

// ParseLimit accepts every spelling of a limit, and is the inverse of LimitText.
func TestParseLimit(t *testing.T) {
	for text, want := range map[string]limiter.Limit{
		"100 per 10 seconds":         {Requests: 100, Window: 10 * time.Second},
		"5 per second":               {Requests: 5, Window: time.Second},
		"500 calls per minute":       {Requests: 500, Window: time.Minute, Calls: true},
		"5 per 1 second":             {Requests: 5, Window: time.Second},
		"1,000 per 90 days":          {Requests: 1000, Window: 90 * 24 * time.Hour},
		"1 000 000 per 90 days":      {Requests: 1_000_000, Window: 90 * 24 * time.Hour},
		"1_000 per 250 milliseconds": {Requests: 1000, Window: 250 * time.Millisecond},
		"7 per hour, token bucket": {Requests: 7, Window: time.Hour,
			Algorithm: limiter.TokenBucket},
		"7 per hour, token-bucket": {Requests: 7, Window: time.Hour,
			Algorithm: limiter.TokenBucket},
		"7 per hour, counter":            {Requests: 7, Window: time.Hour, Algorithm: limiter.Counter},
		"7 per hour, denied calls count": {Requests: 7, Window: time.Hour, CountDenied: true},
		"7 per hour, counter, shadow": {Requests: 7, Window: time.Hour, Algorithm: limiter.Counter,
			Shadow: true},
		"50,000 per day, 5,000 slots": {Requests: 50_000, Window: 24 * time.Hour, Slots: 5000},
		"9 per hour, notify at 80/100 %": {Requests: 9, Window: time.Hour,
			Notify: limiter.Thresholds{80, 100}},
		"9 per hour, notify at 80 %": {Requests: 9, Window: time.Hour, Notify: limiter.Thresholds{80}},
		"9 per calendar month (UTC), fixed window": {Requests: 9, Calendar: limiter.Month,
			Algorithm: limiter.FixedWindow},
		"9 per calendar week (UTC), fixed window": {Requests: 9, Calendar: limiter.Week,
			Algorithm: limiter.FixedWindow},
		"9 per calendar year (UTC), fixed window": {Requests: 9, Calendar: limiter.Year,
			Algorithm: limiter.FixedWindow},
		"9 per calendar day (Europe/Berlin), fixed window": {
			Requests: 9, Calendar: limiter.Day, Zone: "Europe/Berlin", Algorithm: limiter.FixedWindow,
		},
		"100/minute":             {Requests: 100, Window: time.Minute},
		"100 / 10s":              {Requests: 100, Window: 10 * time.Second},
		"10r/s":                  {Requests: 10, Window: time.Second},
		"30 r/m":                 {Requests: 30, Window: time.Minute},
		"5 req/sec":              {Requests: 5, Window: time.Second},
		"100 per min":            {Requests: 100, Window: time.Minute},
		"100 per 2hrs":           {Requests: 100, Window: 2 * time.Hour},
		"100 a day":              {Requests: 100, Window: 24 * time.Hour},
		"100 every hour":         {Requests: 100, Window: time.Hour},
		"10 requests per second": {Requests: 10, Window: time.Second},
		"1 Request Per Second":   {Requests: 1, Window: time.Second},
		" 100  per\t10 seconds ": {Requests: 100, Window: 10 * time.Second},
		"5 per second,token bucket": {Requests: 5, Window: time.Second,
			Algorithm: limiter.TokenBucket},
		"5 per second , Token Bucket": {Requests: 5, Window: time.Second,
			Algorithm: limiter.TokenBucket},
		"50,000 per day,5,000 slots,shadow": {Requests: 50_000, Window: 24 * time.Hour, Slots: 5000,
			Shadow: true},
		"9 per calendar week":    {Requests: 9, Calendar: limiter.Week, Algorithm: limiter.FixedWindow},
		"9/calendar month (UTC)": {Requests: 9, Calendar: limiter.Month, Algorithm: limiter.FixedWindow},
	} {
		got, err := ParseLimit(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
		if again, err := ParseLimit(LimitText(got)); err != nil || again != got {
			t.Errorf("%s: its LimitText %s is parsed as %+v, %v", text, LimitText(got), again, err)
		}
	}
}

// Text that is not a limit is an error of bounded length.
func TestParseLimitRefuses(t *testing.T) {
	for _, text := range []string{
		"", "100", "per second", "ten per second", "100 per", "100 per 10", "100 per fortnight",
		"100 per calendar fortnight", "1,00 per second", "9 per hour, notify at most",
		"-1 per second",
		"1e3 per second", "100 per 0 seconds", "100 per 999999999 days", "100 per second, fast",
		"100 per second,", "99999999999999999999 per second",
		"100 per calendar day (../../etc/passwd), fixed window", strings.Repeat("1", 5000) + " per second",
	} {
		l, err := ParseLimit(text)
		if err == nil {
			t.Errorf("%.60q: got %+v, want an error", text, l)
		} else if len(err.Error()) > 400 {
			t.Errorf("%.60q: the error has %d bytes, want at most 400", text, len(err.Error()))
		}
	}
}

// An error says what to write where a text is nearly a limit.
func TestParseLimitAdvises(t *testing.T) {
	for text, want := range map[string]string{
		"100 per week":           `"per calendar week" or "per 7 days"`,
		"100/month":              `"per calendar month" or "per 30 days"`,
		"100 per year":           `"per calendar year" or "per 365 days"`,
		"100 per 2 weeks":        `"per 14 days"`,
		"token bucket":           "put a limit with a comma in quotes",
		"many per hour":          `"500 calls per minute"`,
		"100 perminute":          `write a limit as "100 per 10 seconds"`,
		"5 per second,very fast": `"very fast" is not an option`,
	} {
		if l, err := ParseLimit(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v, want %s", text, l, err, want)
		}
	}
}

func TestLimitText(t *testing.T) {
	for want, limit := range map[string]limiter.Limit{
		"100 per 10 seconds":           {Requests: 100, Window: 10 * time.Second},
		"500 calls per minute, shadow": {Requests: 500, Window: time.Minute, Calls: true, Shadow: true},
		"9 calls per calendar month (UTC), fixed window": {Requests: 9, Calls: true,
			Algorithm: limiter.FixedWindow, Calendar: limiter.Month},
		"100 per 10 seconds, denied calls count": {Requests: 100, Window: 10 * time.Second,
			CountDenied: true},
		"5,000 per hour, 2,500 slots": {Requests: 5000, Window: time.Hour, Slots: 2500},
		"1 per day, denied calls count, 64 slots": {Requests: 1, Window: 24 * time.Hour,
			CountDenied: true, Slots: 64},
		"1,000 per calendar month (Europe/Berlin), fixed window": {
			Requests: 1000, Algorithm: limiter.FixedWindow, Calendar: limiter.Month, Zone: "Europe/Berlin",
		},
		"5 per calendar minute (UTC), fixed window": {Requests: 5, Algorithm: limiter.FixedWindow,
			Calendar: limiter.Minute},
		"5 per minute, fixed window": {Requests: 5, Algorithm: limiter.FixedWindow, Window: time.Minute},
		"9 per 90 minutes, token bucket": {Requests: 9, Algorithm: limiter.TokenBucket,
			Window: 90 * time.Minute},
	} {
		if got := LimitText(limit); got != want {
			t.Errorf("%+v: got %q, want %q", limit, got, want)
		}
	}
}

// limits draws lists of at least least limits. With shadow, some limits are in shadow
// mode.
func limits(least int, shadow ...bool) *rapid.Generator[[]limiter.Limit] {
	one := rapid.Custom(func(t *rapid.T) limiter.Limit {
		l := limiter.Limit{
			Requests: rapid.Int64Range(1, limiter.MaxRequests).Draw(t, "requests"),
			Window: time.Duration(rapid.Int64Range(1, int64(limiter.MaxWindow/time.Millisecond)).Draw(t,
				"window")) * time.Millisecond,
			Algorithm: rapid.SampledFrom(limiter.Algorithms()).Draw(t, "algorithm"),
			Calls:     rapid.Bool().Draw(t, "calls"),
		}
		switch l.Algorithm {
		case limiter.Log:
			l.CountDenied = rapid.Bool().Draw(t, "denied")
			l.Slots = rapid.SampledFrom([]int{0, limiter.MinSlots, 5000}).Draw(t, "slots")
		case limiter.FixedWindow:
			if l.Calendar = limiter.Calendar(rapid.IntRange(0, int(limiter.Year)).Draw(t,
				"calendar")); l.Calendar != limiter.NoCalendar {
				l.Window, l.Zone = 0, rapid.SampledFrom([]string{"", "UTC", "Europe/Berlin",
					"America/Argentina/Buenos_Aires"}).Draw(t, "zone")
			}
		default:
		}
		if !l.CountDenied && l.Span() >= limiter.MinNotifyWindow {
			l.Notify = rapid.SampledFrom([]limiter.Thresholds{{}, {100}, {50, 80, 100}}).Draw(t, "notify")
		}
		l.Shadow = len(shadow) > 0 && rapid.Bool().Draw(t, "shadow")
		return l
	})
	return rapid.Map(rapid.SliceOfN(one, least, limiter.MaxLimits), orNil)
}
