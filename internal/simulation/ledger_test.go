package simulation

import (
	"slices"
	"time"
)

// ledger is a plain list of the calls that limits on one subject admitted, by the time
// that really passed.
type ledger struct {
	shard  int
	calls  []call  // certainly counted
	ghosts []call  // perhaps counted: see mayCount
	known  []bound // limits at the last counted call

	copied      []call // what the replica has
	copiedKnown []bound
}

// call is when a call was made. The limits counted it at an instant between the two. It
// may count for longer by late, since the server's clock has stepped back by as much.
type call struct {
	began, ended time.Time
	late         time.Duration
	cost         int64
}

// bound is a limit, a log. It has counted every call since from, and from the call with
// the number first on. Calls that it took over from other limits may count as if they had
// been made at the time carried.
type bound struct {
	requests      int64
	window        time.Duration
	calls         bool // it counts calls, whatever they cost
	shadow        bool
	counting      bool // it only counts, because an override replaces it
	from, carried time.Time
	first         int
}

// admit adds a call that limits admitted, while others counted it. It returns the limit
// that admitted too much, if there is one.
func (l *ledger) admit(c call, limits, others []bound) (exceeded bound, found bool) {
	l.calls = append(l.calls, c)
	l.known = l.successors(len(l.calls)-1, c.ended, append(slices.Clone(limits), others...))
	for i := range others {
		l.known[len(limits)+i].counting = true
	}
	for _, b := range l.known[:len(limits)] {
		if !b.shadow && l.counted(b, c.ended) > b.requests {
			return b, true
		}
	}
	return bound{}, false
}

// weight returns how much of a limit a call takes.
func (b bound) weight(cost int64) int64 {
	if b.calls {
		return 1
	}
	return cost
}

// counted returns how much of calls a limit of known certainly counts.
func (l *ledger) counted(b bound, now time.Time) (count int64) {
	for i, c := range l.calls {
		if i >= b.first && c.began.After(now.Add(-b.window)) && !c.began.Before(b.from) {
			count += b.weight(c.cost)
		}
	}
	return count
}

// most returns how much of calls a limit counts at most.
func (l *ledger) most(b bound, now time.Time) (count int64) {
	for _, c := range slices.Concat(l.calls, l.ghosts) {
		at := c.ended
		if at.Before(b.carried) {
			at = b.carried
		}
		if at.After(now.Add(-b.window - c.late)) {
			count += b.weight(c.cost)
		}
	}
	return count
}

// successors returns limits with what they have counted before the call with a number.
// One that is longer than those of the call before knows what they knew. One in shadow
// mode does not count the calls that it would deny, and one that only counts does not
// count all above its number.
func (l *ledger) successors(number int, now time.Time, limits []bound) []bound {
	after := make([]bound, len(limits))
	for i, b := range limits {
		b.from, b.carried, b.counting, b.first = now, now, false, number
		for _, old := range l.known {
			if old.calls != b.calls {
				continue
			}
			if old.window == b.window && old.shadow == b.shadow {
				b.carried = old.carried
			}
			if old.shadow || old.counting && old.requests < b.requests {
				continue
			}
			from := old.from
			// A call leaves a window at the instant that is as long after it.
			if kept := now.Add(-old.window + time.Nanosecond); old.window < b.window && kept.After(from) {
				from = kept
			}
			if from.Before(b.from) || from.Equal(b.from) && old.first < b.first {
				b.from, b.first = from, old.first
			}
		}
		after[i] = b
	}
	return after
}

// full reports whether a limit may deny one more call.
func (l *ledger) full(now time.Time, limits []bound, cost int64) bool {
	return slices.ContainsFunc(l.successors(len(l.calls), now, limits), func(b bound) bool {
		return !b.shadow && l.most(b, now)+b.weight(cost) > b.requests
	})
}

// age makes the calls older, as a clock that steps forward does.
func (l *ledger) age(by time.Duration) {
	for _, list := range [][]call{l.calls, l.ghosts, l.copied} {
		for i := range list {
			list[i].began, list[i].ended = list[i].began.Add(-by), list[i].ended.Add(-by)
		}
	}
	for _, list := range [][]bound{l.known, l.copiedKnown} {
		for i := range list {
			list[i].from, list[i].carried = list[i].from.Add(-by), list[i].carried.Add(-by)
		}
	}
}

// delay lets the calls count for longer, as a clock that steps back does. A log that then
// gets a longer window may take them over a second time, from a log that has noticed the
// step.
func (l *ledger) delay(by time.Duration) {
	for _, list := range [][]call{l.calls, l.ghosts, l.copied} {
		for i := range list {
			list[i].late += by
		}
	}
	l.ghosts = append(l.ghosts, l.calls...)
}

// copy remembers what the replica has.
func (l *ledger) copy() { l.copied, l.copiedKnown = slices.Clone(l.calls), slices.Clone(l.known) }

// forget forgets what the replica does not have.
func (l *ledger) forget() { l.calls, l.known = slices.Clone(l.copied), slices.Clone(l.copiedKnown) }
