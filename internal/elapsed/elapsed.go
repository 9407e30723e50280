// Package elapsed tells how much time passed in a program that may have been frozen meanwhile, as Lambda freezes functions.
package elapsed

import "time"

// Between returns the bounds of the time that passed from one reading of time.Now to a later one. The monotonic clock may have stood still in a
// freeze, and the time of day may have been set; neither of them ran backwards by itself, so both bounds are at least 0.
func Between(from, to time.Time) (least, most time.Duration) {
	monotonic, day := to.Sub(from), to.Round(0).Sub(from.Round(0))
	return max(0, min(monotonic, day)), max(0, monotonic, day)
}

// AtLeast is the smaller bound of Between.
func AtLeast(from, to time.Time) time.Duration { least, _ := Between(from, to); return least }

// AtMost is the greater bound of Between.
func AtMost(from, to time.Time) time.Duration { _, most := Between(from, to); return most }
