package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// Call is the calls of a subject in one second with the same outcome.
type Call struct {
	Time   time.Time // to the second
	Denied bool
	Calls  int64
	Cost   int64 // sum over the calls; denied calls without a note cost one each
	Noted  bool  // whether the second is known; if not, calls are spread over their minute
}

// maxCallsSpan bounds the span of Calls, since notes are kept for little more than an hour.
const maxCallsSpan = 2 * time.Hour

// Calls returns the calls of a subject between two times at most 2 hours apart, in order
// of time, for charts of less than an hour. Their counts by minute equal those of Series.
// The package comment says which seconds are known.
func (r *Reader) Calls(ctx context.Context, id string, from, to time.Time) ([]Call, error) {
	s, err := newSpan(from, to, time.Minute)
	if err != nil {
		return nil, err
	}
	if to.Sub(from) > maxCallsSpan {
		return nil, fmt.Errorf("%w: %s is more than the %s that calls are noted", ErrSpan,
			to.Sub(from), maxCallsSpan)
	}
	b := keyspace.BucketOf(id)
	first, last := s.periods()
	var commands valkey.Commands
	for hour := first; hour <= last; hour++ {
		commands = append(commands, r.client.B().Get().Key(callsName(b, id, hour)).Build(),
			r.client.B().Hgetall().Key(minutesName(b, id, hour)).Build())
	}
	results := r.client.DoMulti(ctx, commands...)
	now := time.Now()
	var calls []Call
	for i, hour := 0, first; hour <= last; i, hour = i+2, hour+1 {
		h, err := readHour(results[i], results[i+1])
		if err != nil {
			return nil, fmt.Errorf("usage: calls: %w", err)
		}
		calls = h.appendCalls(calls, time.Unix(hour*secondsPerHour, 0).UTC(), now)
	}
	calls = slices.DeleteFunc(calls, func(c Call) bool { return c.Time.Before(from) || !c.Time.Before(to) })
	slices.SortStableFunc(calls, func(a, b Call) int { return a.Time.Compare(b.Time) })
	return calls, nil
}

// hourOfCalls is the stored calls of a subject in an hour.
type hourOfCalls struct {
	notes   []note
	minutes [minutesPerHour]tally
}

func readHour(notes, minutes valkey.ValkeyResult) (hourOfCalls, error) {
	var h hourOfCalls
	text, err := notes.AsBytes()
	if err != nil && !valkey.IsValkeyNil(err) {
		return h, err
	}
	h.notes = parseNotes(text)
	slices.SortStableFunc(h.notes, func(a, b note) int { return cmp.Compare(a.second, b.second) })
	return h, eachCount(minutes, kindsPerSlot, func(slot int64, k kind, n int64) {
		if slot < minutesPerHour {
			h.minutes[slot][k] = n
		}
	})
}

// appendCalls appends the noted calls. It spreads the other calls evenly over their
// minute, or over the part of it that has passed.
func (h *hourOfCalls) appendCalls(calls []Call, start, now time.Time) []Call {
	noted := map[int][]int{} // by minute, the indexes in calls of notes of allowed calls
	for _, n := range h.notes {
		minute := n.second / int(secondsPerMinute)
		if minute >= len(h.minutes) {
			continue
		}
		unnoted := &h.minutes[minute]
		if n.denied {
			unnoted[denied] -= n.calls
		} else {
			unnoted[allowed] -= n.calls
			unnoted[extraCost] -= n.extra
			noted[minute] = append(noted[minute], len(calls))
		}
		calls = append(calls, Call{start.Add(time.Duration(n.second) * time.Second), n.denied, n.calls,
			n.calls + n.extra, true})
	}
	for minute := range h.minutes {
		unnoted := &h.minutes[minute]
		at := start.Add(time.Duration(minute) * time.Minute)
		seconds := secondsPerMinute
		if passed := now.Sub(at); passed >= 0 && passed < time.Minute {
			seconds = max(int64(passed/time.Second), 1)
		}
		calls = spread(calls, at, seconds, unnoted[allowed], max(unnoted[extraCost], 0), false)
		calls = spread(calls, at, seconds, unnoted[denied], 0, true)
		if unnoted[allowed] <= 0 {
			addExtraCost(calls, noted[minute], unnoted[extraCost])
		}
	}
	return calls
}

// addExtraCost spreads extra cost that did not fit in the notes over the noted calls.
func addExtraCost(calls []Call, noted []int, extra int64) {
	for i, at := range noted {
		if extra > 0 {
			calls[at].Cost += part(extra, i, len(noted))
		}
	}
}

// part returns the i-th of parts nearly equal integers whose sum is of.
func part(of int64, i, parts int) int64 { return of*int64(i+1)/int64(parts) - of*int64(i)/int64(parts) }

// spread appends n calls, evenly distributed over the first seconds of a minute.
func spread(calls []Call, minute time.Time, seconds, n, extra int64, denied bool) []Call {
	if n <= 0 {
		return calls
	}
	steps := int(min(n, seconds))
	for i := range steps {
		at := minute.Add(time.Duration(i*int(seconds)/steps) * time.Second)
		calls = append(calls, Call{at, denied, part(n, i, steps),
			part(n, i, steps) + part(extra, i, steps), false})
	}
	return calls
}

// note is the calls of one second with one outcome. It is stored in noteLen bytes, most
// significant bit first: 12 bits second of the hour, 1 bit denied, 6 bits calls, 5 bits
// extra cost.
type note struct {
	second int // of the hour
	denied bool
	calls  int64
	extra  int64 // sum of the costs above one
}

const (
	noteLen      = 3
	maxNoteCalls = 1<<6 - 1
	maxNoteExtra = 1<<5 - 1
)

// appendNotes appends as many stored notes as the calls need. Extra cost that does not
// fit in them is dropped.
func appendNotes(b []byte, n note) []byte {
	for n.calls > 0 {
		calls, extra := min(n.calls, maxNoteCalls), min(n.extra, maxNoteExtra)
		word := n.second<<12 | int(calls)<<5 | int(extra)
		if n.denied {
			word |= 1 << 11
		}
		b = append(b, byte(word>>16), byte(word>>8), byte(word))
		n.calls -= calls
		n.extra -= extra
	}
	return b
}

// parseNotes reads stored notes. It ignores an incomplete one at the end.
func parseNotes(b []byte) []note {
	notes := make([]note, 0, len(b)/noteLen)
	for ; len(b) >= noteLen; b = b[noteLen:] {
		word := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
		notes = append(notes, note{second: word >> 12, denied: word>>11&1 == 1,
			calls: int64(word >> 5 & maxNoteCalls), extra: int64(word & maxNoteExtra)})
	}
	return notes
}
