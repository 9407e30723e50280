package wording

import (
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/limiter"
)

// A limit that owes says how much. One that could not count its whole window says since
// when it counts.
func TestWindowThatOwes(t *testing.T) {
	limit := limiter.Limit{Requests: 1000, Window: time.Hour}
	since := time.Date(2026, 11, 21, 14, 3, 0, 0, time.UTC)
	for _, c := range []struct {
		usage       limiter.Usage
		note, since string
	}{
		{limiter.Usage{Limit: limit, Remaining: 1000}, "", ""},
		{limiter.Usage{Limit: limit}, "full", ""},
		{limiter.Usage{Limit: limit, Owed: 1500, Since: since}, "owes 1,500", "2026-11-21 14:03:00 UTC"},
	} {
		if w := Window(c.usage); w.Note != c.note || w.Since.Text != c.since {
			t.Errorf("%+v: got note %q since %q, want %q, %q", c.usage, w.Note, w.Since.Text, c.note, c.since)
		}
	}
}

// A diagnosis says what its figures leave out.
func TestDiagnosisSaysWhatIsMissing(t *testing.T) {
	for want, d := range map[string]app.Diagnosis{
		"No logged denial in the last 24 hours; 1,200 more were counted but not logged.": {Unlogged: 1200},
		"No logged denial in the last 24 hours; entries that cannot be read: 3.":         {Unreadable: 3},
	} {
		if got := Diagnosis(d).State; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := Diagnosis(app.Diagnosis{Calls: 5, Unlogged: 1200}).More; got !=
		"; 1,200 more were counted but not logged" {
		t.Errorf("beside logged calls got %q, want the number that is not logged", got)
	}
}
