package records

import (
	"errors"
	"fmt"
	"time"
)

// Range is a range of time in steps, from From (inclusive) to To (exclusive).
type Range struct {
	From, To time.Time
	Step     time.Duration // of a point; 0 for one point
}

const (
	maxPoints = 1500
	// longestFine is the longest range that is read by the minute, of 26 or 27 hashes.
	longestFine = 26 * time.Hour
)

// ErrRange means that a range cannot be read in its steps. ErrNotKept means that no record
// of the range is kept.
var (
	ErrRange   = errors.New("records: range")
	ErrNotKept = errors.New("records: not kept")
)

// Last returns the last whole minutes or hours, of which the present one has just begun
// or goes on: it never includes a call that is longer ago than d. d is whole minutes;
// from 2 days on it is whole hours.
func Last(d, step time.Duration, now time.Time) Range {
	unit := time.Minute
	if d > 2*dayHours*time.Hour {
		unit = time.Hour
	}
	end := now.UTC().Truncate(unit).Add(unit)
	return Range{end.Add(-d), end, step}
}

// part is slots of one scale, from first to before end.
type part struct {
	scale      scale
	first, end int64
}

// plan returns the parts that together make a range, and the range that they cover: whole
// hours where counts by minute are not kept, or would be too many.
// byHour says that there are counts by hour.
func (g Range) plan(now time.Time, byHour bool) ([]part, Range, error) {
	fine := !byHour || g.Step%time.Hour != 0
	g.From, g.To = g.From.UTC().Truncate(time.Minute), ceil(g.To.UTC(), time.Minute)
	span := g.To.Sub(g.From)
	switch {
	case g.From.Unix() < 0 || span <= 0:
		return nil, g, fmt.Errorf("%w: it must begin after 1970 and before it ends", ErrRange)
	case g.Step < 0 || g.Step%time.Minute != 0:
		return nil, g, fmt.Errorf("%w: a step must be whole minutes, not %s", ErrRange, g.Step)
	case g.Step > 0 && span/g.Step > maxPoints:
		return nil, g, fmt.Errorf("%w: more than %d points", ErrRange, maxPoints)
	case now.Sub(g.To) >= HoursKept:
		return nil, g, fmt.Errorf("%w: it ends more than %s ago", ErrNotKept, HoursKept)
	case fine && span > longestFine:
		return nil, g, fmt.Errorf("%w: steps of %s for at most %s", ErrRange, g.Step, longestFine)
	case fine && now.Sub(g.To) >= MinutesKept:
		return nil, g, fmt.Errorf("%w: minutes are kept for %s", ErrNotKept, MinutesKept)
	case fine, g.Step > 0 && g.From.Minute() != 0 && span <= longestFine &&
		now.Sub(g.From) < MinutesKept:
		return []part{{minutes, minutes.slotOf(g.From), minutes.slotOf(g.To)}}, g, nil
	case span > HoursKept+time.Hour:
		return nil, g, fmt.Errorf("%w: %s is more than %s", ErrRange, span, HoursKept)
	}
	first, end := ceil(g.From, time.Hour), g.To.Truncate(time.Hour)
	if g.Step > 0 || now.Sub(g.From) >= MinutesKept {
		first, g.From = g.From.Truncate(time.Hour), g.From.Truncate(time.Hour)
	}
	if now.Sub(g.To) >= MinutesKept {
		end, g.To = ceil(g.To, time.Hour), ceil(g.To, time.Hour)
	}
	if !first.Before(end) {
		return []part{{minutes, minutes.slotOf(g.From), minutes.slotOf(g.To)}}, g, nil
	}
	parts := []part{{hours, hours.slotOf(first), hours.slotOf(end)}}
	if g.From.Before(first) {
		parts = append(parts, part{minutes, minutes.slotOf(g.From), minutes.slotOf(first)})
	}
	if end.Before(g.To) {
		parts = append(parts, part{minutes, minutes.slotOf(end), minutes.slotOf(g.To)})
	}
	return parts, g, nil
}

func ceil(t time.Time, unit time.Duration) time.Time {
	if down := t.Truncate(unit); down.Before(t) {
		return down.Add(unit)
	}
	return t
}

// points returns the points of the range, without counts.
func (g Range) points() []Point {
	step := g.Step
	if step == 0 {
		step = g.To.Sub(g.From)
	}
	points := make([]Point, (g.To.Sub(g.From)+step-1)/step)
	for i := range points {
		points[i].Start = g.From.Add(time.Duration(i) * step)
	}
	return points
}

// index returns the number of the point with a time, or -1.
func (g Range) index(t time.Time) int {
	switch {
	case t.Before(g.From) || !t.Before(g.To):
		return -1
	case g.Step == 0:
		return 0
	}
	return int(t.Sub(g.From) / g.Step)
}
