package wording

import (
	"slices"
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
)

// A limit says in words what it counts, what is used and owed, and whether it denies.
func TestWindow(t *testing.T) {
	limit, err := limits.Parse("1,000 per hour, on search, shadow")
	if err != nil {
		t.Fatal(err)
	}
	applied := limits.Applied{Limit: limit}
	replaced := limits.Applied{Limit: limit, CountsOnly: true}
	for note, l := range map[string]enforce.LimitState{
		"":           {Applied: applied, Remaining: 1000},
		"full":       {Applied: applied},
		"owes 1,500": {Applied: applied, Owed: 1500},
		"90 %":       {Applied: replaced, Remaining: 100},
	} {
		w := Window(l)
		marks := []string{"on search", "shadow"}
		if l.CountsOnly {
			marks = append(marks, "counts only")
		}
		if w.Note != note || w.Limit != "1,000 per hour" || w.For != "each caller" ||
			!slices.Equal(w.Marks, marks) {
			t.Errorf("%s: got %+v", note, w)
		}
	}
}

// A calendar quota says when it is full at the present rate: 800 of 1,000 a month in Berlin,
// taken in 491.5 hours, leave 122.9 hours; 50 of 100 a day are full at 21:00. 500 a month
// last.
func TestForecast(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 30, 0, 0, time.UTC)
	for want, c := range map[string]struct {
		limit string
		used  int64
	}{
		"At this rate full on 26 November (Europe/Berlin)": {"1,000 per calendar month (Europe/Berlin)", 800},
		"At this rate full at 21:00 (UTC)":                 {"100 per calendar day", 50},
		"":                                                 {"1,000 per calendar month", 500},
	} {
		limit, err := limits.Parse(c.limit)
		if err != nil {
			t.Fatal(err)
		}
		l := enforce.LimitState{Applied: limits.Applied{Limit: limit}, Remaining: limit.Requests - c.used}
		if got := WindowAt(l, now).Forecast; got != want {
			t.Errorf("%s: got %q, want %q", c.limit, got, want)
		}
	}
}

// A diagnosis says that calls may be missing.
func TestDiagnosisSaysWhatIsMissing(t *testing.T) {
	const want = "No denied or refused call is known in the last 24 hours; some may be missing."
	if got := Diagnosis(app.Diagnosis{AtLeast: true}).State; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Diagnosis(app.Diagnosis{Calls: 5, AtLeast: true}).Calls; got != "at least 5 calls denied" {
		t.Errorf("beside recorded calls got %q, want at least 5", got)
	}
}
