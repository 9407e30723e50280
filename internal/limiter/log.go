package limiter

import (
	"cmp"
	"slices"
	"sort"
)

// push records cost at the time at: in the newest slot, whose time becomes at, until it is
// full, then in new slots.
func (st *state) push(group, at, cost int64) {
	if n := len(st.slots); n > 0 && st.fill < group {
		added := min(cost, group-st.fill)
		st.slots = append(slices.Clone(st.slots[:n-1]), at)
		st.fill += added
		cost -= added
	}
	for cost > 0 {
		st.slots = append(st.slots, at)
		st.fill = min(cost, group)
		cost -= st.fill
	}
}

// admit pushes cost, and drops slots that have left every window. A log that counts
// denied calls keeps only the newest keep slots, since no decision reads older ones.
func (st *state) admit(sec section, at, cost, keep int64) {
	if n := len(st.slots); n > 0 && at-st.slots[n-1] >= sec.span {
		st.slots, st.deficits, st.fill, st.keep = nil, nil, 0, 0
	}
	st.push(sec.group, at, cost)
	st.dropThrough(at - sec.span)
	if sec.kind == attemptsKind {
		st.keep = max(st.keep, keep)
		st.slots = st.slots[max(0, int64(len(st.slots))-st.keep):]
	}
}

// dropThrough drops the slots and deficits up to the time t.
func (st *state) dropThrough(t int64) {
	i := 0
	for i < len(st.slots) && st.slots[i] <= t {
		i++
	}
	st.slots = st.slots[i:]
	for len(st.deficits) > 0 && st.deficits[0].at <= t {
		st.deficits = st.deficits[1:]
	}
}

// since returns the number of calls in slots later than t.
func (st *state) since(group, t int64) int64 {
	first, _ := slices.BinarySearch(st.slots, t+1)
	slots := int64(len(st.slots) - first)
	if slots == 0 {
		return 0
	}
	return st.fill + (slots-1)*group - st.missing(t)
}

// missing returns the number of calls of the deficits later than t.
func (st *state) missing(t int64) (calls int64) {
	for _, d := range st.deficits {
		if d.at > t {
			calls += d.calls
		}
	}
	return calls
}

// logUsage evaluates a log for a cost. It returns what usageOf returns.
func (st *state) logUsage(sec section, at, window, requests, cost int64) (left, reset, retry int64) {
	used := int64(len(st.slots))
	if used == 0 {
		return requests, 0, 0
	}
	// staying is how many of the newest slots may stay in the window when this cost is
	// added. The slot before them must have left it.
	staying := int64(0)
	if spare := requests - cost - st.fill; spare >= 0 {
		staying = spare/sec.group + 1
	}
	deciding := used - staying - 1
	if len(st.deficits) > 0 {
		deciding = st.leaving(sec.group, requests-cost)
	}
	if deciding >= 0 {
		retry = window - (at - st.slots[deciding])
	}
	return requests - st.since(sec.group, at-window), window - (at - st.slots[used-1]), retry
}

// leaving returns the index of the slot that must leave the window so that at most calls
// remain in it; -1 if no slot must leave.
func (st *state) leaving(group, calls int64) int64 {
	if st.since(group, st.slots[0]-1) <= calls {
		return -1
	}
	newest := len(st.slots) - 1
	i := sort.Search(newest, func(i int) bool {
		return st.fill+int64(newest-1-i)*group-st.missing(st.slots[i]) <= calls
	})
	return int64(i)
}

// maxDeficits is the maximum number of deficits in a log. For more, the two nearest are
// merged.
const maxDeficits = 64

// deficit is the number of refunded calls in the slots with the time at: they stand for
// that many calls fewer than whole groups. It leaves the window with those slots. No
// deficit has the time of the newest slot, whose number of calls is the log's fill.
type deficit struct{ at, calls int64 }

// refundLog removes calls from a log. When the call was recorded, the log's clock was
// ahead of the server's by 0 to the present offset; refundLog assumes 0. Removing calls
// from slots that are too early counts too much for a while. Removing them from slots
// that are too late would admit too much.
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

// refundGroups removes calls from the slots since the refunded call, earliest first. It
// removes whole slots. For the rest it lowers the fill of the newest slot or adds a
// deficit.
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
	end := first // slots first to end-1 are removed
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
	case end > last || end == last && rest == st.fill: // every slot since the call is removed
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
		st.setFill(group)
	}
	if len(st.deficits) > maxDeficits {
		st.mergeDeficits(group)
	}
	return unreturned
}

// setFill sets the fill of the slot that has become the newest, because later slots were
// removed. The fill replaces its deficit.
func (st *state) setFill(group int64) {
	st.fill = group
	if n := len(st.deficits); n > 0 && st.deficits[n-1].at == st.slots[len(st.slots)-1] {
		st.fill -= st.deficits[n-1].calls
		st.deficits = st.deficits[:n-1]
	}
}

// mergeDeficits merges the two deficits with the nearest times. Calls may then count
// longer, by the time between the two, but never shorter.
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
	end := near + 1
	if calls == group {
		end++
	}
	st.deficits = slices.Delete(d, near, end)
}
