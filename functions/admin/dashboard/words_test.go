package dashboard

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/limiter"
)

func TestNumber(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 12345: "12,345", 1_000_000_000: "1,000,000,000", -1234: "-1,234", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		if got := number(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                         "0 s",
		0:                                    "0 s",
		time.Microsecond:                     "0.1 s",
		3200 * time.Millisecond:              "3.2 s",
		3201 * time.Millisecond:              "3.3 s",
		59900 * time.Millisecond:             "59.9 s",
		59901 * time.Millisecond:             "1 min",
		time.Minute:                          "1 min",
		time.Minute + time.Millisecond:       "1 min 1 s",
		time.Hour - time.Second:              "59 min 59 s",
		time.Hour - time.Millisecond:         "1 h",
		80 * time.Minute:                     "1 h 20 min",
		24*time.Hour - time.Second:           "1 d",
		76*time.Hour + time.Second:           "3 d 5 h",
		366 * 24 * time.Hour:                 "366 d",
		24*time.Hour - time.Minute:           "23 h 59 min",
		24*time.Hour - 61*time.Second:        "23 h 59 min",
		time.Hour - 1001*time.Millisecond:    "59 min 59 s",
		24*time.Hour + 60*time.Minute:        "1 d 1 h",
		23*time.Hour + 30*time.Minute + 1:    "23 h 31 min",
		59*time.Minute + 58*time.Second + 10: "59 min 59 s",
	} {
		if got := span(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for _, row := range []struct{ used, of, want int64 }{
		{0, 10, 0}, {1, 1_000_000, 1}, {999_999, 1_000_000, 99}, {10, 10, 100}, {12, 10, 100}, {5, 10, 50}, {-1, 10, 0}, {1, 0, 0},
		{limiter.MaxRequests - 1, limiter.MaxRequests, 99},
	} {
		if got := percent(row.used, row.of); got != row.want {
			t.Errorf("%d of %d: %d, want %d", row.used, row.of, got, row.want)
		}
	}
}

// A limit that the form shows is read back as the same limit.
func TestFormRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := limiter.Limit{
			Requests:  rapid.Int64Range(1, limiter.MaxRequests).Draw(t, "requests"),
			Window:    time.Duration(rapid.Int64Range(1, int64(limiter.MaxWindow/time.Millisecond)).Draw(t, "window")) * time.Millisecond,
			Algorithm: rapid.SampledFrom(limiter.Algorithms()).Draw(t, "algorithm"),
		}
		key := testKey("AAAAAAAAAAAA", "acme", limit)
		form := newLimitsForm(key)
		got, rows := form.limits()
		if !form.valid() || len(got) != 1 || got[0] != limit || len(rows) != 1 {
			t.Fatalf("%v became %v, %+v", limit, got, form)
		}
	})
}

// Text that anybody typed never makes the form panic, nor pass as a limit out of bounds.
func TestFormNeverPassesNonsense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9., _+\-ex]{0,25}`))
		form := limitsForm{rows: []limitInput{{
			requests:  input{text: text.Draw(t, "requests")},
			window:    input{text: text.Draw(t, "window")},
			unit:      input{text: rapid.OneOf(text, rapid.SampledFrom(limiter.WindowUnits())).Draw(t, "unit")},
			algorithm: input{text: rapid.SampledFrom([]string{"log", "counter", "", "x"}).Draw(t, "algorithm")},
		}}}
		limits, _ := form.limits()
		if !form.valid() {
			return
		}
		for _, l := range limits {
			if err := l.Validate(); err != nil {
				t.Fatalf("%+v passed: %v", form, err)
			}
		}
	})
}
