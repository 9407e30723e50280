package limiter

import (
	"cmp"
	"slices"
)

// maxDeficits is how many deficits a log keeps. One more makes the two nearest into one.
const maxDeficits = 64

// deficit says by how many calls the slots with one stamp stand for less than whole
// groups. It leaves the window together with those slots. No deficit has the newest
// slot's stamp.
type deficit struct{ at, calls int64 }

// refund takes back cost that was recorded at the time taken. It returns how much of it
// the section may still hold and did not give back. Nothing is held of a call that has
// left the window, so nothing of it is given back and nothing is returned.
func (st *state) refund(sec section, r refund) (unreturned int64) {
	switch sec.kind {
	case counterKind:
		switch {
		// the clock stepped back: the call's window is unknown
		case r.taken >= st.start+sec.span:
			return min(r.cost, st.cur+st.prev)
		case r.taken >= st.start:
			st.cur -= min(st.cur, r.cost)
		case r.taken >= st.start-sec.span:
			st.prev -= min(st.prev, r.cost)
		}
		return 0
	case fixedKind:
		if r.taken >= r.ends {
			return min(r.cost, st.cur)
		}
		if r.taken >= st.start {
			st.cur -= min(st.cur, r.cost)
		}
		return 0
	case bucketKind:
		return st.refundBucket(sec.span, r)
	default:
		return st.refundLog(sec, r)
	}
}

// refund is what a Refund asks of a section. Times are microseconds on the server's
// clock.
type refund struct {
	now, cost, taken int64
	requests         int64 // the section's largest limit
	ends             int64 // the current window of a fixed window ends then
	whole            bool  // the section keeps no deficits: the state has no room for them
}

// refundLog goes by the earliest time at which the log's clock can have stamped the call:
// the offset was between 0 and today's. To take calls out of slots too early counts too
// much for a while; to take them out of slots too late would admit too much.
func (st *state) refundLog(sec section, r refund) (unreturned int64) {
	clock := r.now + st.offset
	if sec.kind == logKind {
		st.dropThrough(clock - sec.span)
	}
	if r.taken <= r.now-sec.span {
		return 0
	}
	if sec.kind == attemptsKind || r.taken <= clock-sec.span {
		return min(r.cost, st.since(sec.group, max(r.taken-1, clock-sec.span)))
	}
	if sec.group > 1 {
		return st.refundGroups(sec.group, r)
	}
	begin, _ := slices.BinarySearch(st.slots, r.taken)
	end, _ := slices.BinarySearch(st.slots, r.taken+st.offset+1)
	given := min(r.cost, int64(end-begin))
	later := int64(len(st.slots) - end)
	st.slots = slices.Concat(st.slots[:begin], st.slots[begin+int(given):])
	return min(r.cost-given, later)
}

// refundGroups takes calls out of the slots stamped since the call, the earliest first:
// whole slots go, the newest one is filled less, and what is left is a deficit.
func (st *state) refundGroups(group int64, r refund) (unreturned int64) {
	first, _ := slices.BinarySearch(st.slots, r.taken)
	if first == len(st.slots) {
		return 0
	}
	rest := min(r.cost, st.since(group, r.taken-1))
	next, _ := slices.BinarySearchFunc(st.deficits, r.taken, func(d deficit, at int64) int {
		return cmp.Compare(d.at, at)
	})
	deficits := slices.Clone(st.deficits[:next])
	last := len(st.slots) - 1
	end := first // of what goes
	for ; next < len(st.deficits); next++ {
		d := st.deficits[next]
		behind, _ := slices.BinarySearch(st.slots, d.at+1)
		calls := int64(behind-end)*group - d.calls
		if rest < calls {
			break
		}
		rest -= calls
		end = behind
	}
	ahead := st.deficits[next:]
	end += int(rest / group)
	rest %= group
	switch {
	case end > last || end == last && rest == st.fill: // everything since the call
		end = last + 1
	case len(ahead) == 0 && st.slots[end] == st.slots[last]:
		left := int64(last-end)*group + st.fill - rest
		end = last + 1 - int((left+group-1)/group)
		st.fill = left - int64(last-end)*group
	case rest > 0 && len(ahead) > 0 && ahead[0].at == st.slots[end]:
		rest += ahead[0].calls
		if rest >= group {
			end++
			rest -= group
		}
		ahead = ahead[1:]
		if rest > 0 {
			deficits = append(deficits, deficit{st.slots[end], rest})
		}
	case rest > 0 && r.whole:
		unreturned = rest
	case rest > 0:
		deficits = append(deficits, deficit{st.slots[end], rest})
	}
	st.deficits = slices.Concat(deficits, ahead)
	st.slots = slices.Concat(st.slots[:first], st.slots[end:])
	if end > last {
		st.endAt(group)
	}
	if len(st.deficits) > maxDeficits {
		st.mergeDeficits(group)
	}
	return unreturned
}

// endAt makes the last slot the newest one, after what came later was given back: what it
// stands for is its fill.
func (st *state) endAt(group int64) {
	st.fill = group
	if n := len(st.deficits); n > 0 && st.deficits[n-1].at == st.slots[len(st.slots)-1] {
		st.fill -= st.deficits[n-1].calls
		st.deficits = st.deficits[:n-1]
	}
}

// mergeDeficits makes the two nearest deficits into one. Calls count longer for that,
// from the earlier stamp to the later one, and never shorter.
func (st *state) mergeDeficits(group int64) {
	d, near := st.deficits, 0
	for i := range len(d) - 1 {
		if d[i+1].at-d[i].at < d[near+1].at-d[near].at {
			near = i
		}
	}
	calls := d[near].calls + d[near+1].calls
	if calls < group {
		d[near].calls = calls
		st.deficits = slices.Delete(d, near+1, near+2)
		return
	}
	slot, _ := slices.BinarySearch(st.slots, d[near].at)
	st.slots = slices.Delete(st.slots, slot, slot+1)
	d[near+1].calls = calls - group
	gone := near + 1
	if calls == group {
		gone++
	}
	st.deficits = slices.Delete(d, near, gone)
}
