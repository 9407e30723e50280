package wording

import (
	"testing"
	"time"

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
