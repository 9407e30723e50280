package usage

import (
	"errors"
	"fmt"
	"time"

	"tidegate/internal/store/keyspace"
)

// How long counts are kept.
const (
	MinutesKept = 24 * time.Hour
	HoursKept   = 30 * 24 * time.Hour
)

// MaxPoints is the most points that a series has.
const MaxPoints = 1500

// ErrSpan means that no counts are kept for a span of time in the requested steps.
var ErrSpan = errors.New("usage: span")

// span is a range of time in whole steps, and the keys that hold its counts.
type span struct {
	unit  time.Duration // of the stored counts: a minute or an hour
	step  time.Duration
	first int64 // unit since 1970, inclusive
	end   int64 // unit since 1970, exclusive
}

// newSpan widens the range to whole steps. Steps of whole hours read the counts by hour,
// which are kept longer; other steps read those by minute.
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
	s.first = first * s.unitsPerStep()
	s.end = last * s.unitsPerStep()
	return s, nil
}

// byHour returns spans that together equal s and use counts by hour where they can.
func (s span) byHour() []span {
	firstHour, endHour := (s.first+minutesPerHour-1)/minutesPerHour, s.end/minutesPerHour
	if s.unit == time.Hour || firstHour >= endHour {
		return []span{s}
	}
	minutes := func(first, end int64) span { return span{time.Minute, time.Minute, first, end} }
	all := []span{{time.Hour, time.Hour, firstHour, endHour}}
	if s.first < firstHour*minutesPerHour {
		all = append(all, minutes(s.first, firstHour*minutesPerHour))
	}
	if endHour*minutesPerHour < s.end {
		all = append(all, minutes(endHour*minutesPerHour, s.end))
	}
	return all
}

func (s span) unitsPerStep() int64 { return int64(s.step / s.unit) }

func (s span) unitsPerKey() int64 {
	if s.unit == time.Hour {
		return hoursPerDay
	}
	return minutesPerHour
}

// steps returns how many points a series of the span has.
func (s span) steps() int { return int((s.end - s.first) / s.unitsPerStep()) }

// stepOf returns the index of the step that contains a unit, or -1.
func (s span) stepOf(unit int64) int {
	if unit < s.first || unit >= s.end {
		return -1
	}
	return int((unit - s.first) / s.unitsPerStep())
}

// periods returns the first and last hour, or day, whose keys hold the span.
func (s span) periods() (first, last int64) {
	return s.first / s.unitsPerKey(), (s.end - 1) / s.unitsPerKey()
}

// points returns a series without counts.
func (s span) points() []Point {
	points := make([]Point, s.steps())
	for i := range points {
		points[i].Start = time.Unix(0, 0).UTC().Add(time.Duration(s.first)*s.unit + time.Duration(i)*s.step)
	}
	return points
}

// source is a key that holds counts, and the series they belong to.
type source struct {
	key    string
	origin int64 // unit of the slot 0
	series int
}

// totalSources returns the keys that hold the span of a total or a rule.
func (s span) totalSources(name string) []source {
	var sources []source
	for i := range totalBuckets {
		sources = s.appendSources(sources, totalBucket(i), name, 0)
	}
	return sources
}

// appendSources appends the keys that hold the span of a name in a bucket.
func (s span) appendSources(to []source, b keyspace.Bucket, name string, series int) []source {
	for first, last := s.periods(); first <= last; first++ {
		key := minutesName(b, name, first)
		if s.unit == time.Hour {
			key = hoursName(b, name, first)
		}
		to = append(to, source{key, first * s.unitsPerKey(), series})
	}
	return to
}
