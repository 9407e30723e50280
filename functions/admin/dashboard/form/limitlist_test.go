package form

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// drawLimit draws a valid limit of any kind.
func drawLimit(t *rapid.T) limiter.Limit {
	l := limiter.Limit{
		Requests: rapid.Int64Range(1, limiter.MaxRequests).Draw(t, "requests"),
		Window: time.Duration(rapid.Int64Range(1, int64(limiter.MaxWindow/time.Millisecond)).Draw(t,
			"window")) * time.Millisecond,
		Algorithm: rapid.SampledFrom(limiter.Algorithms()).Draw(t, "algorithm"),
	}
	l.Shadow = rapid.Bool().Draw(t, "shadow")
	l.Calls = rapid.Bool().Draw(t, "calls")
	switch l.Algorithm {
	case limiter.Log:
		l.CountDenied = rapid.Bool().Draw(t, "count denied")
		l.Slots = rapid.OneOf(rapid.Just(0),
			rapid.IntRange(limiter.MinSlots, limiter.MaxSlots)).Draw(t, "slots")
	case limiter.FixedWindow:
		l.Calendar = rapid.SampledFrom(append(limiter.Calendars(), limiter.NoCalendar)).Draw(t, "calendar")
		if l.Calendar != limiter.NoCalendar {
			l.Window, l.Zone = 0, rapid.SampledFrom([]string{"", "Europe/Berlin",
				"Asia/Kolkata"}).Draw(t, "zone")
		}
	case limiter.Counter, limiter.TokenBucket:
	}
	if !l.CountDenied && l.Span() >= limiter.MinNotifyWindow {
		l.Notify = rapid.SampledFrom([]limiter.Thresholds{{}, {100}, {50, 80, 100}, {1, 2, 3, 4, 99}}).Draw(
			t, "notify")
	}
	return l
}

// A limit that the page shows is read back unchanged after a browser sent the form, and has
// a meaning.
func TestFormRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := drawLimit(t)
		if err := limit.Validate(); err != nil {
			t.Fatalf("drew an invalid limit %+v: %v", limit, err)
		}
		shown := NewLimitList("limits", []limiter.Limit{limit})
		values := url.Values{}
		for _, row := range shown.View("", "").Rows {
			values.Set(row.Name, row.Field.Value)
			if row.Meaning == "" {
				t.Errorf("%s has no meaning", row.Field.Value)
			}
		}
		list, err := ReadLimitList(values, "limits")
		if err != nil {
			t.Fatal(err)
		}
		got := list.Limits()
		if list.ErrorCount() > 0 || len(got) != 1 || got[0] != limit {
			t.Fatalf("got %v, want %v; form %+v", got, limit, list)
		}
	})
}

// Arbitrary text never makes the form panic or yields an invalid limit.
func TestFormRejectsInvalidLimits(t *testing.T) {
	words := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9., _+\-ex]{0,12}`),
		rapid.StringMatching(`[1-9][0-9]{0,4}`), rapid.SampledFrom([]string{" per ", "calls", "second", " days",
			"calendar month", "(Europe/Berlin)", ", counter", ", shadow", ", 64 slots",
			", denied calls count", ", notify at 80 %"})), 1, 8)
	rapid.Check(t, func(t *rapid.T) {
		form := LimitList{Rows: []Input{{Text: strings.Join(words.Draw(t, "words"), "")}}}
		limits := form.Limits()
		if form.ErrorCount() > 0 {
			return
		}
		for _, l := range limits {
			if err := l.Validate(); err != nil {
				t.Fatalf("form %+v has no error, but yields an invalid limit: %v", form, err)
			}
		}
	})
}

// An error of the store for any field of a limit is shown at the limit, also after blank
// ones.
func TestSetError(t *testing.T) {
	list, err := ReadLimitList(url.Values{"limits[0]": {" "}, "limits[1]": {"50 per hour"}}, "limits")
	if err != nil || len(list.Limits()) != 1 {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"requests": "The number of calls is bad.", "zone": "The time zone is bad.", "new": "It is bad.",
	} {
		e := policy.FieldError{Field: "override.limits[0]." + field, Message: "is bad"}
		if !list.SetError(e, "override.limits") || list.SetError(
			policy.FieldError{Field: "override.limits[1].requests"}, "override.limits",
		) {
			t.Errorf("%s: SetError accepts no error, or one of a missing limit", field)
		}
		if got := list.View("", "").Rows[1].Field.Error; got != want {
			t.Errorf("%s: got %q, want %q", field, got, want)
		}
	}
}

// Every sample is a limit in the words of the server, but for its fixed window.
func TestLimitSamples(t *testing.T) {
	for _, sample := range LimitSamples() {
		l, problem := parseLimit(sample.Text)
		text := strings.TrimSuffix(policydoc.LimitText(l), ", fixed window")
		if problem != "" || text != sample.Text {
			t.Errorf("%s: got %q, %s", sample.Text, text, problem)
		}
	}
}
