package limiter

import (
	"cmp"
	"slices"
)

// debt is the time until a bucket is full: whole microseconds, and a number of parts of
// 1/requests of a microsecond.
type debt struct{ whole, part int64 }

func (d debt) compare(o debt) int {
	return cmp.Or(cmp.Compare(d.whole, o.whole), cmp.Compare(d.part, o.part))
}

// minus returns d minus o, which must not be larger than d.
func (d debt) minus(o debt, requests int64) debt {
	d.whole -= o.whole
	d.part -= o.part
	if d.part < 0 {
		d.whole--
		d.part += requests
	}
	return d
}

// roundUp returns the debt in microseconds, rounded up.
func (d debt) roundUp() int64 {
	if d.part > 0 {
		return d.whole + 1
	}
	return d.whole
}

// calls returns the number of calls that a debt stands for, rounded up.
func (d debt) calls(requests, span int64) int64 {
	calls, rest := muldiv(requests, d.whole, span)
	return calls + (rest+d.part+span-1)/span
}

// debtOf returns the debt of a number of calls.
func debtOf(calls, span, requests int64) (d debt) {
	d.whole, d.part = muldiv(calls, span, requests)
	return d
}

func least(a, b debt) debt {
	if a.compare(b) < 0 {
		return a
	}
	return b
}

// debt returns the debt of a bucket at the time now.
func (st *state) debt(now int64) debt {
	if st.whole < now {
		return debt{}
	}
	return debt{st.whole - now, st.part}
}

func (st *state) setDebt(now int64, d debt, requests int64) {
	st.whole, st.part, st.requests = now+d.whole, d.part, requests
}

// advanceBucket limits the debt to the window, which it exceeds if the clock stepped
// back. If the limit has changed, it converts the debt: it stands for as many calls as
// before, rounded up, but at most for the new limit.
func (st *state) advanceBucket(span, now, requests int64) (moved bool) {
	d := st.debt(now)
	if d == (debt{}) {
		return false // keep the stored state, because the clock may step back
	}
	if d.compare(debt{whole: span}) > 0 {
		d, moved = debt{whole: span}, true
	}
	if st.requests != requests {
		d = debtOf(min(requests, d.calls(max(1, st.requests), span)), span, requests)
		moved = true
	}
	st.setDebt(now, d, requests)
	if moved {
		st.valleys = valleys{}
	}
	return moved
}

// fillBucket adds cost to the debt.
func (st *state) fillBucket(span, now, requests, cost int64) {
	st.setDebt(now, st.debtWith(span, now, requests, cost), requests)
}

// debtWith returns the debt with cost added.
func (st *state) debtWith(span, now, requests, cost int64) debt {
	d, added := st.debt(now), debtOf(cost, span, requests)
	d.whole, d.part = d.whole+added.whole, d.part+added.part
	if d.part >= requests {
		d.whole, d.part = d.whole+1, d.part-requests
	}
	return d
}

func (st *state) bucketUsage(span, now, requests, cost int64) (left, reset, retry int64) {
	d := st.debt(now)
	left, rest := muldiv(requests, span-d.whole, span)
	if rest < d.part {
		left -= (d.part - rest + span - 1) / span
	}
	return left, d.roundUp(), st.bucketRetry(span, now, requests, cost)
}

func (st *state) bucketRetry(span, now, requests, cost int64) int64 {
	return st.debtWith(span, now, requests, cost).roundUp() - span
}

// maxValleys is the maximum number of valleys in a bucket. For more, two are merged.
const maxValleys = 16

// valleys are the low points of a bucket's debt, which make refunds exact. Without the
// refunded call, the debt would now be smaller: by the call's debt, or by the least debt
// just before any later call if that is smaller, since the bucket would have been full at
// that time. The valleys are those least debts: each is smaller than all later ones.
type valleys struct {
	tracked bool  // a call was made by Reserve
	since   int64 // time of that call
	full    bool  // the bucket was full at that time: earlier calls left no debt
	list    []valley
}

// valley is a bucket's debt just before a call. A merged valley stands for several calls,
// with the time of the last one and the debt of the first one, which is the least.
type valley struct {
	at     int64
	merged bool
	debt
}

// latest returns the latest time in the valleys.
func (v *valleys) latest() int64 {
	if n := len(v.list); n > 0 {
		return v.list[n-1].at
	}
	return v.since
}

// add records the debt before a call. If the bucket was full, or the clock stepped back,
// it first drops the older valleys.
func (v *valleys) add(now int64, owed debt, reserve bool) {
	if !v.tracked || owed == (debt{}) || now < v.latest() {
		*v = valleys{tracked: reserve, since: now, full: reserve && owed == (debt{})}
		return
	}
	list := slices.Clone(v.list)
	for len(list) > 0 && list[len(list)-1].compare(owed) >= 0 {
		list = list[:len(list)-1]
	}
	list = append(list, valley{at: now, debt: owed})
	v.list = list
	if len(v.list) > maxValleys {
		v.merge()
	}
}

// merge merges the two valleys with the nearest debts. A refund may then give back too
// little, but never too much.
func (v *valleys) merge() {
	near := 0
	for i := range len(v.list) - 1 {
		if v.list[i+1].whole-v.list[i].whole < v.list[near+1].whole-v.list[near].whole {
			near = i
		}
	}
	v.list[near].at = v.list[near+1].at
	v.list[near].merged = true
	v.list = slices.Delete(v.list, near+1, near+2)
}

// subtract subtracts a refund of a call from the debts after that call.
func (v *valleys) subtract(taken int64, given debt, requests int64) {
	var list []valley
	for _, x := range slices.Backward(v.list) {
		if x.at > taken {
			x.debt = x.minus(least(given, x.debt), requests)
		}
		if len(list) == 0 || x.compare(list[len(list)-1].debt) < 0 {
			list = append(list, x)
		}
	}
	slices.Reverse(list)
	v.list = list
}

// refundBucket gives back the debt of a call. For a call from before the valleys it gives
// back only the debt that cannot have drained since. It returns the number of calls for
// which the bucket may still have debt.
func (st *state) refundBucket(span int64, r refund) (unreturned int64) {
	owed, cost := st.debt(r.now), debtOf(r.cost, span, r.requests)
	if st.valleys.full && r.taken < st.valleys.since {
		return 0
	}
	most := least(cost, owed)
	given, exact := most, st.valleys.tracked && r.taken >= st.valleys.since && r.taken <= r.now
	if exact {
		for _, v := range st.valleys.list {
			if v.at > r.taken {
				exact = !v.merged || v.compare(most) >= 0
				given = least(given, v.debt)
				break
			}
		}
	} else {
		cost.whole -= r.now - r.taken
		if cost.whole < 0 || r.taken > r.now {
			cost = debt{}
		}
		given = least(given, cost)
	}
	if given != (debt{}) {
		left := owed.minus(given, r.requests)
		st.setDebt(r.now, left, r.requests)
		st.valleys.subtract(r.taken, given, r.requests)
		if left == (debt{}) { // a full bucket has no debt of any call
			st.valleys = valleys{}
		}
	}
	if exact {
		return 0
	}
	return most.minus(given, r.requests).calls(r.requests, span)
}
