//go:build unix

package main

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"
)

// queued detects a rate above capacity: a worker whose calls take 10 ms keeps up with 90
// calls a second, and not with 110.
func TestQueueGrowsAboveCapacity(t *testing.T) {
	for rate, want := range map[float64]bool{90: false, 110: true} {
		c := &fakeClock{now: time.Hour}
		all := newTally(c.Now(), measurement, expectAll)
		a := &attack{
			clock: c, schedule: constant(rate), duration: measurement, workers: 1, done: all.add,
			call: func(context.Context, int64) outcome {
				c.pass(10 * time.Millisecond)
				return outcome{}
			},
		}
		a.run(t.Context())
		if got := queued(all.outcomes, time.Hour+measurement/2); got != want {
			t.Errorf("%.0f calls a second: got queued %t, want %t", rate, got, want)
		}
	}
}

func TestNoCallsCountAsQueued(t *testing.T) {
	if !queued(nil, 0) {
		t.Error("got queued false without calls, want true")
	}
}

func TestSustained(t *testing.T) {
	rate, err := sustained(1000, func(perSecond float64) (bool, error) { return perSecond < 900, nil })
	if want := 1000 * slower * slower; err != nil || math.Abs(rate-want) > 1e-6 {
		t.Errorf("got %f, %v; want %f", rate, err, want)
	}
	if _, err := sustained(1000, func(float64) (bool, error) {
		return false, nil
	}); err == nil || !strings.Contains(err.Error(), "-rate") {
		t.Errorf("a target that never keeps up: got %v, want an error that names -rate", err)
	}
}
