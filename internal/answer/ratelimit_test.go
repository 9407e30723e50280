package answer

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// If there are too many limits, clients see those that denied, by the longest wait, and
// then those with the least remaining.
func TestMostUrgentLimitsAreReported(t *testing.T) {
	limits := make([]enforce.LimitState, 48)
	for i := range limits {
		l := limiter.Limit{Requests: limiter.MaxRequests - int64(i), Window: time.Hour}
		limits[i] = enforce.LimitState{Usage: limiter.Usage{Limit: l, Remaining: int64(len(limits) - i)},
			Scope: policy.ScopeKey, Mode: policy.Enforce}
	}
	limits[20].RetryAfter, limits[3].RetryAfter = time.Hour, time.Minute
	got := reported(limits)
	if len(got) != maxFields || got[0].RetryAfter != time.Hour || got[1].RetryAfter != time.Minute ||
		got[2].Remaining != 1 {
		t.Errorf("got %+v, want limits 20, 3 and 47 first", got)
	}
	if names := violated(got); len(names) != 2 {
		t.Errorf("got violated %v, want 2", names)
	}
}

// Limits in shadow mode are not reported. Two limits with the same text get different
// names.
func TestNamesOfLimits(t *testing.T) {
	hour := limiter.Usage{Limit: limiter.Limit{Requests: 5, Window: time.Hour}, Remaining: 2,
		Reset: time.Minute, Next: 7 * time.Second}
	bucket := hour
	bucket.Limit.Algorithm = limiter.TokenBucket
	limits := reported([]enforce.LimitState{
		{Usage: hour, Scope: policy.ScopeKey, Mode: policy.Enforce},
		{Usage: hour, Scope: policy.ScopeIP, Mode: policy.Shadow},
		{Usage: bucket, Scope: policy.ScopeKey, Mode: policy.Enforce},
		{Usage: hour, Scope: policy.ScopeGlobal, Mode: policy.Enforce},
	})
	if got, want := stateField(limits),
		`"5 per 1 hour";r=2;t=7, "5 per 1 hour (2)";r=2;t=7, "global 5 per 1 hour";r=2;t=7`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := policyField(limits[:1]); got != `"5 per 1 hour";q=5;w=3600` {
		t.Errorf("got %s, want q=5 and w=3600", got)
	}
}

// A calendar period has no w: clients would take its longest length, 90,000 s for a day,
// for the window.
func TestCalendarPeriodHasNoWindow(t *testing.T) {
	day := limiter.Usage{Limit: limiter.Limit{Requests: 1000, Algorithm: limiter.FixedWindow,
		Calendar: limiter.Day}}
	limits := reported([]enforce.LimitState{{Usage: day, Scope: policy.ScopeKey, Mode: policy.Enforce}})
	if got, want := policyField(limits), `"1000 per calendar day";q=1000`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// RateLimit-Policy has the unit of each limit if some count calls and others cost.
func TestQuotaUnits(t *testing.T) {
	calls := limiter.Usage{Limit: limiter.Limit{Requests: 500, Window: time.Minute, Calls: true}}
	cost := limiter.Usage{Limit: limiter.Limit{Requests: 1_000_000, Window: time.Minute}}
	limits := reported([]enforce.LimitState{
		{Usage: calls, Scope: policy.ScopeKey, Mode: policy.Enforce},
		{Usage: cost, Scope: policy.ScopeKey, Mode: policy.Enforce},
	})
	for _, c := range []struct {
		limits []named
		want   string
	}{
		{limits, `"500 calls per 1 minute";q=500;w=60;qu="requests", ` +
			`"1000000 per 1 minute";q=1000000;w=60;qu="cost"`},
		{limits[:1], `"500 calls per 1 minute";q=500;w=60`},
		{limits[1:], `"1000000 per 1 minute";q=1000000;w=60`},
	} {
		if got := policyField(c.limits); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// quoted escapes quotes and backslashes, and replaces all but printable ASCII by ?.
func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"": `""`, "a b": `"a b"`, `a"b\c`: `"a\"b\\c"`, "naïve\r\n\x7f": `"na?ve???"`, "日本": `"??"`,
		"\xff": `"?"`,
	} {
		if got := quoted(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

var stateItem = regexp.MustCompile(`^"(?:[^"\\]|\\.)*";r=(\d+)(?:;t=(\d+))?(?:, |$)`)

// rateLimitItem is an item of the RateLimit field: calls remaining, and seconds until
// more remain; -1 if the item has no t.
type rateLimitItem struct{ r, t int64 }

func parseState(t *rapid.T, field string) []rateLimitItem {
	var items []rateLimitItem
	for rest := field; rest != ""; {
		found := stateItem.FindStringSubmatch(rest)
		if found == nil {
			t.Fatalf("%q is no item at %q", field, rest)
		}
		item := rateLimitItem{t: -1}
		item.r, _ = strconv.ParseInt(found[1], 10, 64)
		if found[2] != "" {
			item.t, _ = strconv.ParseInt(found[2], 10, 64)
		}
		items, rest = append(items, item), rest[len(found[0]):]
	}
	return items
}

func drawLimit(t *rapid.T) limiter.Limit {
	l := limiter.Limit{
		Requests: rapid.Int64Range(1, 200).Draw(t, "requests"),
		Window: rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, 17 * time.Minute,
			24 * time.Hour}).Draw(t, "window"),
		Algorithm: rapid.SampledFrom(limiter.Algorithms()).Draw(t, "algorithm"),
	}
	switch {
	case l.Algorithm == limiter.Log:
		l.CountDenied = rapid.Bool().Draw(t, "count denied")
		l.Slots = rapid.SampledFrom([]int{0, limiter.MinSlots}).Draw(t, "slots")
	case l.Algorithm == limiter.FixedWindow && rapid.Bool().Draw(t, "calendar"):
		l.Window, l.Calendar = 0, rapid.SampledFrom(limiter.Calendars()).Draw(t, "period")
	}
	return l
}

// In random histories with random limits of every algorithm: t seconds after the answer,
// more than r remains, and a second earlier it does not. Retry-After is not before the t
// of a limit that denied. Time is virtual.
func TestRemainingRisesAtT(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := rapid.SliceOfN(rapid.Custom(drawLimit), 1, 3).Draw(t, "limits")
		model, now := limiter.Model{}, time.Unix(1_800_000_000, 0)
		least := limits[0].Requests
		for _, l := range limits {
			least = min(least, l.Requests)
		}
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, limits[0].Span().Microseconds()/4).Draw(t,
				"pause")) * time.Microsecond)
			cost := rapid.Int64Range(1, least).Draw(t, "cost")
			d, err := model.Take(now, limits, cost)
			if err != nil {
				t.Fatal(err)
			}
			checkState(t, model, d)
		}
	})
}

// checkState checks the RateLimit field of a decision against later states of the model.
func checkState(t *rapid.T, model limiter.Model, d limiter.Decision) {
	result := enforce.Result{Allowed: d.Allowed, Now: d.Now}
	limits := make([]limiter.Limit, len(d.Limits))
	for i, u := range d.Limits {
		limits[i] = u.Limit
		result.Limits = append(result.Limits,
			enforce.LimitState{Usage: u, Scope: policy.ScopeKey, Mode: policy.Enforce})
	}
	a := To(result)
	items := parseState(t, a.RateLimit)
	if len(items) != len(limits) {
		t.Fatalf("%q: %d items for %d limits", a.RateLimit, len(items), len(limits))
	}
	remaining := func(seconds int64) []limiter.Usage {
		later := model
		return later.Peek(d.Now.Add(time.Duration(seconds)*time.Second), limits).Limits
	}
	for i, item := range items {
		where := fmt.Sprintf("%s of %q after %+v", limits[i], a.RateLimit, d)
		switch {
		case item.r == limits[i].Requests:
			if item.t >= 0 {
				t.Fatalf("%s: nothing is used, but t is given", where)
			}
		case item.t < 0:
			t.Fatalf("%s: t is missing", where)
		case remaining(item.t)[i].Remaining <= item.r:
			t.Fatalf("%s: got %d remaining at t, want more than r", where, remaining(item.t)[i].Remaining)
		case item.t > 1 && remaining(item.t - 1)[i].Remaining > item.r:
			t.Fatalf("%s: got %d remaining a second before t, want at most r", where,
				remaining(item.t - 1)[i].Remaining)
		case a.Denial != nil && d.Limits[i].RetryAfter > 0 && item.t > WholeSeconds(result.RetryAfter()):
			t.Fatalf("%s: t is after %s", where, result.RetryAfter())
		}
	}
}
