package simulation

import (
	"slices"
	"time"
)

// ledger is a plain list of the calls that limits on one subject admitted, by the time
// that really passed.
type ledger struct {
	calls  []call  // certainly counted
	ghosts []call  // perhaps counted: their reply was lost
	known  []bound // limits at the last counted call

	copied      int // number of calls that the replica has
	copiedKnown []bound
}

// call is when a call was made. The limits counted it at an instant between the two.
type call struct{ began, ended time.Time }

// bound is a limit, a log. It has counted every call since from.
type bound struct {
	requests int64
	window   time.Duration
	from     time.Time
}

// admit adds a call that limits admitted, while others counted it. It returns the limit
// that admitted too much, if there is one. A limit that is longer than those of the call
// before knows what they knew.
func (l *ledger) admit(c call, limits, others []bound) (exceeded bound, found bool) {
	l.calls = append(l.calls, c)
	l.known = successors(l.known, c.ended, append(slices.Clone(limits), others...))
	for _, b := range l.known[:len(limits)] {
		count := int64(0)
		for _, other := range l.calls {
			if other.began.After(c.ended.Add(-b.window)) && !other.began.Before(b.from) {
				count++
			}
		}
		if count > b.requests {
			return b, true
		}
	}
	return bound{}, false
}

// successors returns limits with the time since when they have counted every call.
func successors(before []bound, now time.Time, limits []bound) []bound {
	after := make([]bound, len(limits))
	for i, b := range limits {
		b.from = now
		for _, old := range before {
			from := old.from
			// A call leaves a window at the instant that is as long after it.
			if kept := now.Add(-old.window + time.Nanosecond); old.window < b.window && kept.After(from) {
				from = kept
			}
			if from.Before(b.from) {
				b.from = from
			}
		}
		after[i] = b
	}
	return after
}

// full reports whether a limit may deny one more call. Calls may count for longer by
// slack, since the server's clock has stepped back by as much.
func (l *ledger) full(now time.Time, limits []bound, slack time.Duration) bool {
	for _, b := range limits {
		left := b.requests
		for _, counted := range slices.Concat(l.calls, l.ghosts) {
			if counted.ended.After(now.Add(-b.window - slack)) {
				left--
			}
		}
		if left <= 0 {
			return true
		}
	}
	return false
}

// age makes the calls older, as a clock that steps forward does.
func (l *ledger) age(by time.Duration) {
	for _, list := range [][]call{l.calls, l.ghosts} {
		for i, c := range list {
			list[i] = call{c.began.Add(-by), c.ended.Add(-by)}
		}
	}
	for _, list := range [][]bound{l.known, l.copiedKnown} {
		for i := range list {
			list[i].from = list[i].from.Add(-by)
		}
	}
}

// copy remembers what the replica has.
func (l *ledger) copy() { l.copied, l.copiedKnown = len(l.calls), slices.Clone(l.known) }

// forget forgets what the replica does not have.
func (l *ledger) forget() { l.calls, l.known = l.calls[:l.copied], slices.Clone(l.copiedKnown) }
