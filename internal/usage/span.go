package usage

import (
	"errors"
	"fmt"
	"time"
)

// How long counts are kept.
const (
	MinutesKept = 24 * time.Hour
	HoursKept   = 30 * 24 * time.Hour
)

// MaxPoints is the longest series.
const MaxPoints = 1500

// ErrSpan means that a span of time cannot be answered.
var ErrSpan = errors.New("usage: span")

// span is a stretch of time in whole steps. Times in steps count from 1970.
type span struct {
	unit       time.Duration // of the counts that answer it: a minute or an hour
	step       time.Duration
	first, end int64 // in units
}

// newSpan widens from and to to whole steps. A step of whole hours reads the hours, which
// are kept longer, any other the minutes.
func newSpan(from, to time.Time, step time.Duration) (span, error) {
	s := span{unit: time.Minute, step: step}
	keep := MinutesKept
	if step > 0 && step%time.Hour == 0 {
		s.unit, keep = time.Hour, HoursKept
	}
	switch {
	case step <= 0 || step%time.Minute != 0:
		return span{}, fmt.Errorf("%w: a step must be whole minutes, not %s", ErrSpan, step)
	case from.Unix() < 0 || !from.Before(to):
		return span{}, fmt.Errorf("%w: it must begin after 1970 and before it ends", ErrSpan)
	case to.Sub(from) > keep+step:
		return span{}, fmt.Errorf("%w: %s is more than the %s that steps of %s are kept for", ErrSpan,
			to.Sub(from), keep, step)
	}
	seconds := int64(step / time.Second)
	lastInstant := to.Add(-time.Nanosecond)
	first, last := from.Unix()/seconds, lastInstant.Unix()/seconds+1
	if last-first > MaxPoints {
		return span{}, fmt.Errorf("%w: %d points, at most %d are given", ErrSpan, last-first, MaxPoints)
	}
	s.first, s.end = first*s.perStep(), last*s.perStep()
	return s, nil
}

// perStep is how many units a step has.
func (s span) perStep() int64 { return int64(s.step / s.unit) }

// unitsPerKey is how many units one key holds.
func (s span) unitsPerKey() int64 {
	if s.unit == time.Hour {
		return hoursPerDay
	}
	return minutesPerHour
}

// keys returns the first and last number of the keys that hold the span.
func (s span) keys() (first, last int64) {
	return s.first / s.unitsPerKey(), (s.end - 1) / s.unitsPerKey()
}

// points returns the empty series.
func (s span) points() []Point {
	points := make([]Point, (s.end-s.first)/s.perStep())
	for i := range points {
		points[i].Start = time.Unix(0, 0).UTC().Add(time.Duration(s.first)*s.unit + time.Duration(i)*s.step)
	}
	return points
}

// at returns which point a unit belongs to, or -1.
func (s span) at(unit int64) int {
	if unit < s.first || unit >= s.end {
		return -1
	}
	return int((unit - s.first) / s.perStep())
}
