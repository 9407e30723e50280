package limiter

import (
	"cmp"
	"slices"
)

// giveBack gives the step's cost and calls back to every section. It returns the largest
// part of a cost that a section may still count.
func (s *step) giveBack() (unreturned int64) {
	s.rewrite = true
	for i, sec := range s.sections {
		if sec.shadow && s.Spared&(1<<slices.Index(s.of, i)) != 0 {
			continue
		}
		r := refund{now: s.now, cost: -s.Cost, taken: s.Taken.UnixMicro(), ends: s.windows[i][1]}
		if sec.calls {
			r.cost = s.Calls
		}
		if r.cost > 0 {
			unreturned = max(unreturned, s.parts[i].refund(r))
		}
	}
	return unreturned
}

// refund is what a part gives back. Times are microseconds on the server's clock.
type refund struct {
	now, cost int64
	taken     int64 // when the cost was taken
	ends      int64 // end of the present window of a fixed window
}

// refund gives back a cost. It returns the part of the cost that p may still count
// afterwards. For a call that has left the window it gives nothing back and returns 0,
// because p no longer counts the call.
//
// A part that began after the call may never have counted it, and gives nothing back. A
// log without groups finds that out by itself.
func (p *part) refund(r refund) (unreturned int64) {
	switch p.kind {
	case counterKind:
		switch {
		case r.taken >= p.start+p.window, // the clock stepped back: the call's window is unknown
			r.taken >= p.start-p.window && p.newer(r):
			return min(r.cost, p.cur+p.prev)
		case r.taken >= p.start:
			p.cur -= min(p.cur, r.cost)
		case r.taken >= p.start-p.window:
			p.prev -= min(p.prev, r.cost)
		}
		return 0
	case fixedKind:
		if r.taken >= r.ends || r.taken >= p.start && p.newer(r) {
			return min(r.cost, p.cur)
		}
		if r.taken >= p.start {
			p.cur -= min(p.cur, r.cost)
		}
		return 0
	case bucketKind:
		if p.newer(r) {
			return min(r.cost, p.debt(r.now).calls(p.group, p.window))
		}
		return p.refundBucket(r)
	default:
		return p.refundLog(r)
	}
}

// newer reports whether a part began after the second of a call.
func (p *part) newer(r refund) bool { return p.since > 0 && r.taken < (p.since-1)*1_000_000 }

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
//
// While the log lacks slots that would count, because newer ones filled it, refundLog
// leaves the calls of the largest limit: no dropped ones can take the place of more.
func (p *part) refundLog(r refund) (unreturned int64) {
	clock := r.now + p.offset
	if p.kind == logKind {
		p.trim(clock - p.span)
	}
	if r.taken <= r.now-p.span {
		return 0
	}
	if p.kind == attemptsKind || r.taken <= clock-p.span || p.group > 1 && p.newer(r) {
		return min(r.cost, p.callsAfter(max(r.taken-1, clock-p.span)))
	}
	most := r.cost
	if clock-p.dropped*1_000_000 < p.span {
		most = min(most, max(0, p.callsAfter(0)-(p.keep-1)/2*p.group))
	}
	if p.group > 1 {
		return p.refundGroups(r, most)
	}
	begin, _ := slices.BinarySearch(p.slots, r.taken)
	end, _ := slices.BinarySearch(p.slots, r.taken+p.offset+1)
	given := min(most, int64(end-begin))
	p.slots = slices.Concat(p.slots[:begin], p.slots[begin+int(given):])
	return min(r.cost-given, int64(len(p.slots)-begin))
}

// refundGroups removes calls from the slots since the refunded call, earliest first. It
// removes whole slots. For the rest it lowers the fill of the newest slot or adds a
// deficit. It removes at most a number of calls, and returns what refundLog returns.
//
// The log then still admits too little rather than too much. For every t, let N(t) be the
// calls up to t that were not given back, and C(t) those that slots up to t stand for. A
// slot's time is never earlier than its calls, so C(t) <= N(t), with equal totals. The
// refund lowers N by its cost from the call on. It lowers C by as much, or to what was
// counted before the call. So the inequality still holds, and the totals stay equal.
func (p *part) refundGroups(r refund, most int64) (unreturned int64) {
	first, _ := slices.BinarySearch(p.slots, r.taken)
	if first == len(p.slots) {
		return 0
	}
	rest := min(r.cost, p.callsAfter(r.taken-1))
	unreturned = max(0, rest-most)
	rest -= unreturned
	next, _ := slices.BinarySearchFunc(p.deficits, r.taken, func(d deficit, at int64) int {
		return cmp.Compare(d.at, at)
	})
	deficits := slices.Clone(p.deficits[:next])
	last := len(p.slots) - 1
	end := first // slots first to end-1 are removed
	for ; next < len(p.deficits); next++ {
		d := p.deficits[next]
		behind, _ := slices.BinarySearch(p.slots, d.at+1)
		calls := int64(behind-end)*p.group - d.calls
		if rest < calls {
			break
		}
		rest -= calls
		end = behind
	}
	ahead := p.deficits[next:]
	end += int(rest / p.group)
	rest %= p.group
	switch {
	case end > last || end == last && rest == p.fill: // every slot since the call is removed
		end = last + 1
	case len(ahead) == 0 && p.slots[end] == p.slots[last]:
		left := int64(last-end)*p.group + p.fill - rest
		end = last + 1 - int((left+p.group-1)/p.group)
		p.fill = left - int64(last-end)*p.group
	case rest > 0 && len(ahead) > 0 && ahead[0].at == p.slots[end]:
		rest += ahead[0].calls
		if rest >= p.group {
			end++
			rest -= p.group
		}
		ahead = ahead[1:]
		if rest > 0 {
			deficits = append(deficits, deficit{p.slots[end], rest})
		}
	case rest > 0:
		deficits = append(deficits, deficit{p.slots[end], rest})
	}
	p.deficits = slices.Concat(deficits, ahead)
	p.slots = slices.Concat(p.slots[:first], p.slots[end:])
	if end > last {
		p.setFill()
	}
	if len(p.deficits) > maxDeficits {
		p.mergeDeficits()
	}
	return unreturned
}

// setFill sets the fill of the slot that has become the newest, because later slots were
// removed. The fill replaces its deficit.
func (p *part) setFill() {
	p.fill = p.group
	if n := len(p.deficits); n > 0 && p.deficits[n-1].at == p.slots[len(p.slots)-1] {
		p.fill -= p.deficits[n-1].calls
		p.deficits = p.deficits[:n-1]
	}
}

// mergeDeficits merges the two deficits with the nearest times. Calls may then count
// longer, by the time between the two, but never shorter.
func (p *part) mergeDeficits() {
	d, near := p.deficits, 0
	for i := range len(d) - 1 {
		if d[i+1].at-d[i].at < d[near+1].at-d[near].at {
			near = i
		}
	}
	calls := d[near].calls + d[near+1].calls
	if calls < p.group {
		d[near].calls = calls
		p.deficits = slices.Delete(d, near+1, near+2)
		return
	}
	slot, _ := slices.BinarySearch(p.slots, d[near].at)
	p.slots = slices.Delete(p.slots, slot, slot+1)
	d[near+1].calls = calls - p.group
	end := near + 1
	if calls == p.group {
		end++
	}
	p.deficits = slices.Delete(d, near, end)
}
