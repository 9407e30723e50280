package limiter

import (
	"cmp"
	"slices"
)

// maxValleys is how many valleys a bucket keeps.
const maxValleys = 16

// valleys are what a bucket remembers to give back exactly. Without a call a bucket would
// owe less: by the call's debt, or by the least debt that there was just before any later
// call, when that is less, since without the call the bucket would have been full then.
// So valleys are those least debts: each is less than all later ones.
type valleys struct {
	tracked bool  // since a call that reserved
	since   int64 // that call's time
	full    bool  // the bucket was full then: it owes nothing for earlier calls
	list    []valley
}

// valley is a bucket's debt just before a call. A merged one stands for several calls:
// the time is the last one's, the debt the first one's, which is the least.
type valley struct {
	at     int64
	merged bool
	debt
}

// debt is a time in whole microseconds and in parts of 1/requests.
type debt struct{ whole, part int64 }

func (d debt) compare(o debt) int {
	return cmp.Or(cmp.Compare(d.whole, o.whole), cmp.Compare(d.part, o.part))
}

// minus is d less o, which is not more, in parts of 1/requests.
func (d debt) minus(o debt, requests int64) debt {
	d.whole -= o.whole
	d.part -= o.part
	if d.part < 0 {
		d.whole--
		d.part += requests
	}
	return d
}

func least(a, b debt) debt {
	if a.compare(b) < 0 {
		return a
	}
	return b
}

// latest is the last time that the valleys know of.
func (v *valleys) latest() int64 {
	if n := len(v.list); n > 0 {
		return v.list[n-1].at
	}
	return v.since
}

// note remembers the debt before a call. A bucket that was full forgets what was before;
// so does one whose clock stepped back.
func (v *valleys) note(now int64, owed debt, reserve bool) {
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

// merge makes one valley of the two nearest debts, on the strict side.
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

// less takes what was given back of a call from the debts after it.
func (v *valleys) less(taken int64, given debt, requests int64) {
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

// refundBucket gives back debt. Of a call from before the valleys it gives back what can
// not have drained since. It returns how many calls the bucket may still owe for the
// call.
func (st *state) refundBucket(span int64, r refund) (unreturned int64) {
	var owed, cost debt
	owed.whole, owed.part = st.debt(r.now)
	cost.whole, cost.part = muldiv(r.cost, span, r.requests)
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
		st.whole, st.part, st.requests = r.now+left.whole, left.part, r.requests
		st.valleys.less(r.taken, given, r.requests)
		if left == (debt{}) { // a full bucket owes nothing for any call
			st.valleys = valleys{}
		}
	}
	if exact {
		return 0
	}
	lost := most.minus(given, r.requests)
	return owedCalls(lost.whole, lost.part, r.requests, span)
}
