//go:build unix

package main

import (
	"math"
	"time"
)

// schedule says when the n-th call is to start, since the start of the load; never
// earlier than the one before. It does not depend on how calls are answered: that is what
// makes the load an open one.
type schedule func(n int64) time.Duration

// constant returns an even schedule of rate calls a second.
func constant(rate float64) schedule {
	return func(n int64) time.Duration {
		return time.Duration(math.Round(float64(n) / rate * float64(time.Second)))
	}
}

// around returns a schedule of rate calls a second, but only for a reach before and after
// every boundary of the window. The first boundary lies at first, at least reach.
func around(rate float64, window, reach, first time.Duration) schedule {
	busy := constant(rate)
	return func(n int64) time.Duration {
		at := busy(n)
		boundary := int64(at / (2 * reach))
		return first - reach + window*time.Duration(boundary) + at%(2*reach)
	}
}

// firstBoundary returns how long after now the first boundary of a window that is aligned
// to the epoch comes, at least reach from now.
func firstBoundary(now time.Time, window, reach time.Duration) time.Duration {
	next := now.Add(reach).Truncate(window)
	for next.Before(now.Add(reach)) {
		next = next.Add(window)
	}
	return next.Sub(now)
}
