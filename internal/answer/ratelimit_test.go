package answer

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/limits"
)

// If there are too many limits, clients see those that denied, by the longest wait, and
// then those with the least remaining.
func TestMostUrgentLimitsAreReported(t *testing.T) {
	states := make([]enforce.LimitState, 16)
	for i := range states {
		states[i] = state(fmt.Sprintf("%d per hour", limits.MaxRequests-i))
		states[i].Remaining = int64(len(states) - i)
	}
	states[10].RetryAfter, states[3].RetryAfter = time.Hour, time.Minute
	got := reported(states)
	if len(got) != maxFields || got[0].RetryAfter != time.Hour || got[1].RetryAfter != time.Minute ||
		got[2].Remaining != 1 {
		t.Errorf("got %+v, want limits 10, 3 and 15 first", got)
	}
	if names := violated(got); len(names) != 2 {
		t.Errorf("got violated %v, want 2", names)
	}
}

// The fields of limits with long names and units have a bounded size, and show the most
// urgent limits.
func TestLongFields(t *testing.T) {
	long := strings.Repeat("x", limits.MaxNameLen)
	var states []enforce.LimitState
	for i := range limits.MaxCounts {
		l := state(fmt.Sprintf("1,000,000,000 %s per 366 days, on %s, except search", long, long))
		l.Remaining, l.Next = int64(100-i), 366*24*time.Hour
		states = append(states, l)
	}
	got := reported(states)
	if size := len(stateField(got)) + len(policyField(got)); size > maxBytes || size < maxBytes*3/4 {
		t.Errorf("got %d bytes of %d limits, want at most %d", size, len(got), maxBytes)
	}
	if len(got[0].name) > maxName+5 || !strings.Contains(got[0].name, "...") || got[0].Remaining != 85 {
		t.Errorf("got %s with %d remaining first, want a short name of the least",
			got[0].name, got[0].Remaining)
	}
}

// Clients know a limit by its words: how many, per what time, on which calls and for whom.
// Limits that differ in nothing of these get different names. Limits in shadow, limits that
// only count and limits that were not asked are not reported.
func TestNamesOfLimits(t *testing.T) {
	var states []enforce.LimitState
	for _, text := range []string{
		"1,000 per hour", "1,000 per hour, token bucket", "30 per minute, on search",
		"5 per 5 seconds, on messages, except POST /x, each caller and {channel}",
		"100 per minute, each address", "500 calls per calendar day (Europe/Berlin), each group",
		"9 per hour, together", "4 per hour, shadow", "3 per hour", "2 per hour",
	} {
		l := state(text)
		l.Remaining, l.Next = 2, 7*time.Second
		states = append(states, l)
	}
	states[8].CountsOnly, states[9].Unread = true, true
	got := ""
	for _, l := range reported(states) {
		got += l.name + "\n"
	}
	want := `1,000 per hour
1,000 per hour (2)
30 per minute on search
5 per 5 seconds on messages except POST /x each caller and {channel}
100 per minute each address
500 calls per calendar day (Europe/Berlin) each group
9 per hour together
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := stateField(reported(states[2:3])), `"30 per minute on search";r=2;t=7`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// RateLimit-Policy has the unit of each limit if some limit counts in one. A calendar period
// has no w: clients would take its longest length, 90,000 s for a day, for the window.
func TestQuotaUnits(t *testing.T) {
	for want, texts := range map[string][]string{
		`"5 per hour";q=5;w=3600`:                                                        {"5 per hour"},
		`"5 per 1,500 milliseconds";q=5;w=2`:                                             {"5 per 1500 milliseconds"},
		`"1,000 per calendar day";q=1000`:                                                {"1,000 per calendar day"},
		`"500 calls per minute";q=500;w=60;qu="requests"`:                                {"500 calls per minute"},
		`"30,000 input per minute";q=30000;w=60;qu="input"`:                              {"30,000 input per minute"},
		`"5 calls per day";q=5;w=86400;qu="requests", "9 per day";q=9;w=86400;qu="cost"`: {"5 calls per day", "9 per day"},
	} {
		var states []enforce.LimitState
		for _, text := range texts {
			states = append(states, state(text))
		}
		if got := policyField(reported(states)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
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

// drawLimit draws a limit, and the name of its count: several logs may have one.
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
	case l.Algorithm == limiter.FixedWindow && rapid.Bool().Draw(t, "calendar"):
		l.Window, l.Calendar = 0, rapid.SampledFrom([]limiter.Calendar{limiter.Minute, limiter.Hour,
			limiter.Day, limiter.Week, limiter.Month, limiter.Year}).Draw(t, "period")
	}
	return l
}

// stepOf returns the step of a call on limits of one count.
func stepOf(t *rapid.T, all []limiter.Limit, cost int64, now time.Time) limiter.Step {
	applied := make([]limiter.Applied, len(all))
	for i, l := range all {
		applied[i] = limiter.Applied{Limit: l, Count: "count", Cost: cost, Owner: strconv.Itoa(i)}
		if l.Calendar != limiter.NoCalendar {
			applied[i].Periods = limiter.PeriodsOf(l, now)
		}
	}
	step, err := limiter.NewStep(applied)
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// In random histories with random limits of every algorithm: t seconds after the answer,
// more than r remains, and a second earlier it does not. Retry-After is not before the t
// of a limit that denied. Time is virtual.
func TestRemainingRisesAtT(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(drawLimit), 1, 3).Draw(t, "limits")
		model, now := &limiter.Model{}, time.Unix(1_800_000_000, 0)
		least := all[0].Requests
		for _, l := range all {
			least = min(least, l.Requests)
		}
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, all[0].Span().Microseconds()/4).Draw(t,
				"pause")) * time.Microsecond)
			cost := rapid.Int64Range(1, least).Draw(t, "cost")
			d, err := model.Take(stepOf(t, all, cost, now), now)
			if err != nil {
				t.Fatal(err)
			}
			checkState(t, model, all, d)
		}
	})
}

// checkState checks the RateLimit field of a decision against later states of the model.
func checkState(t *rapid.T, model *limiter.Model, all []limiter.Limit, d limiter.Decision) {
	result := enforce.Result{Allowed: d.Allowed, Now: d.Now}
	for i, u := range d.Limits {
		l := limits.Limit{Requests: u.Limit.Requests, Window: u.Limit.Window, Algorithm: u.Limit.Algorithm,
			Calendar: u.Limit.Calendar, On: fmt.Sprint("GET /", i)}
		state := enforce.LimitState{Applied: limits.Applied{Limit: l}}
		state.Set(u)
		result.Limits = append(result.Limits, state)
	}
	a := To(result)
	items := parseState(t, a.RateLimit)
	if len(items) != len(all) {
		t.Fatalf("%q: %d items for %d limits", a.RateLimit, len(items), len(all))
	}
	remaining := func(i int, seconds int64) int64 {
		at := d.Now.Add(time.Duration(seconds) * time.Second)
		later, err := model.Look(stepOf(t, all, 1, at), at)
		if err != nil {
			t.Fatal(err)
		}
		return later.Limits[i].Remaining
	}
	for i, item := range items {
		where := fmt.Sprintf("%+v of %q after %+v", all[i], a.RateLimit, d)
		switch {
		case item.r == all[i].Requests:
			if item.t >= 0 {
				t.Fatalf("%s: nothing is used, but t is given", where)
			}
		case item.t < 0:
			t.Fatalf("%s: t is missing", where)
		case remaining(i, item.t) <= item.r:
			t.Fatalf("%s: got %d remaining at t, want more than r", where, remaining(i, item.t))
		case item.t > 1 && remaining(i, item.t-1) > item.r:
			t.Fatalf("%s: got %d remaining a second before t, want at most r", where, remaining(i, item.t-1))
		case a.Denial != nil && d.Limits[i].RetryAfter > 0 && item.t > WholeSeconds(result.RetryAfter()):
			t.Fatalf("%s: t is after %s", where, result.RetryAfter())
		}
	}
}
