package store

import "time"

// Elapsed returns bounds of the time between two readings of time.Now. The monotonic
// clock may have stood still in a freeze, and somebody may have set the wall clock.
// Neither runs backwards by itself, so both bounds are at least 0.
func Elapsed(from, to time.Time) (least, most time.Duration) {
	monotonic, day := to.Sub(from), to.Round(0).Sub(from.Round(0))
	return max(0, min(monotonic, day)), max(0, monotonic, day)
}

// ElapsedAtLeast is the smaller bound of Elapsed.
func ElapsedAtLeast(from, to time.Time) time.Duration { least, _ := Elapsed(from, to); return least }

// ElapsedAtMost is the greater bound of Elapsed.
func ElapsedAtMost(from, to time.Time) time.Duration { _, most := Elapsed(from, to); return most }
