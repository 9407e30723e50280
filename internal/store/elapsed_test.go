package store_test

import (
	"testing"
	"time"

	"tidegate/internal/store"
)

// Without a monotonic reading, the times of day decide alone.
func TestBetweenTimesOfDay(t *testing.T) {
	from := time.Unix(1000, 0)
	for _, c := range []struct{ to, want time.Duration }{{0, 0}, {time.Second, time.Second},
		{-time.Hour, 0}} {
		if least, most := store.Elapsed(from, from.Add(c.to)); least != c.want || most != c.want {
			t.Errorf("%s later: %s to %s, want %s", c.to, least, most, c.want)
		}
	}
}

// Readings of both clocks give bounds that hold whichever of them is off; Round(0) is a
// reading whose monotonic clock does not count.
func TestBetweenReadingsOfBothClocks(t *testing.T) {
	from := time.Now()
	to := from.Add(time.Minute)
	if least, most := store.Elapsed(from, to); least != time.Minute || most != time.Minute {
		t.Errorf("%s to %s, want a minute", least, most)
	}
	if store.ElapsedAtLeast(from, to) != time.Minute || store.ElapsedAtMost(from, to) != time.Minute ||
		store.ElapsedAtMost(to, from) != 0 {
		t.Error("AtLeast and AtMost differ from Between")
	}
}
