package limiter

import (
	"math/bits"
	"slices"

	"tidegate/internal/limiter/calendar"
)

// push adds cost to the slots at the time at, first filling up the newest slot.
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

// admit pushes cost, and drops what is out of every window and, of a log of attempts,
// what no decision looks at.
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

// since counts the calls in slots later than t.
func (st *state) since(group, t int64) int64 {
	first, _ := slices.BinarySearch(st.slots, t+1)
	slots := int64(len(st.slots) - first)
	if slots == 0 {
		return 0
	}
	return st.fill + (slots-1)*group - st.missing(t)
}

func (st *state) logUsage(sec section, at, window, requests, cost int64) (left, reset, retry int64) {
	used := int64(len(st.slots))
	if used == 0 {
		return requests, 0, 0
	}
	// The newest slots that may stay in the window with this cost; the one before them
	// has to have left it.
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

// roll moves a counter to the window of now; when the server's clock stepped back, it
// moves the counts back with it and says so.
func (st *state) roll(span, now int64) (back bool) {
	current := now - now%span
	switch {
	case current == st.start+span:
		st.prev, st.cur = st.cur, 0
	case current > st.start:
		st.prev, st.cur = 0, 0
	}
	back = current < st.start
	st.start = current
	return back
}

// estimate is the weighted count of the rolling window that ends now, rounded up.
func (st *state) estimate(span, now int64) int64 {
	return st.cur + divideUp(st.prev, span-(now-st.start), span)
}

func (st *state) counterUsage(span, now, requests, cost int64) (left, reset, retry int64) {
	left = requests - st.estimate(span, now)
	elapsed := now - st.start
	switch {
	case st.cur > 0:
		reset = 2*span - elapsed
	case st.prev > 0:
		reset = span - elapsed
	}
	if cost <= left {
		return left, reset, 0
	}
	if st.cur+cost <= requests {
		overlap, _ := muldiv(requests-st.cur-cost, span, st.prev)
		return left, reset, span - overlap - elapsed
	}
	overlap, _ := muldiv(requests-cost, span, st.cur)
	return left, reset, 2*span - overlap - elapsed
}

func (st *state) fixedUsage(sec section, shifts []calendar.Shift, now, requests, cost int64) (left, reset,
	retry int64) {
	_, end := sec.period(now, shifts)
	left = requests - st.cur
	if st.cur > 0 {
		reset = end - now
	}
	if cost > left {
		retry = end - now
	}
	return left, reset, retry
}

// debt is how long a bucket still takes to be full: whole microseconds and a remainder in
// parts of 1/requests.
func (st *state) debt(now int64) (whole, part int64) {
	if st.whole < now {
		return 0, 0
	}
	return st.whole - now, st.part
}

// advanceBucket caps a debt that a stepped-back clock made longer than the window, and
// turns one in parts of another limit into parts of this one: as many calls are owed as
// before, rounded up, at most all.
func (st *state) advanceBucket(span, now, requests int64) (moved bool) {
	whole, part := st.debt(now)
	if whole == 0 && part == 0 {
		return false // what is stored stands: the clock may step back
	}
	if whole > span || whole == span && part > 0 {
		whole, part, moved = span, 0, true
	}
	if st.requests != requests {
		owed := min(requests, owedCalls(whole, part, max(1, st.requests), span))
		whole, part = muldiv(owed, span, requests)
		moved = true
	}
	st.whole, st.part, st.requests = now+whole, part, requests
	if moved {
		st.valleys = valleys{}
	}
	return moved
}

// owedCalls is how many calls a debt stands for, rounded up.
func owedCalls(whole, part, requests, span int64) int64 {
	calls, rest := muldiv(requests, whole, span)
	return calls + (rest+part+span-1)/span
}

// fillBucket adds cost to the debt.
func (st *state) fillBucket(span, now, requests, cost int64) {
	whole, part := st.after(span, now, requests, cost)
	st.whole, st.part, st.requests = now+whole, part, requests
}

// after returns the debt with cost added.
func (st *state) after(span, now, requests, cost int64) (whole, part int64) {
	whole, part = st.debt(now)
	added, rest := muldiv(cost, span, requests)
	whole, part = whole+added, part+rest
	if part >= requests {
		whole, part = whole+1, part-requests
	}
	return whole, part
}

func (st *state) bucketUsage(span, now, requests, cost int64) (left, reset, retry int64) {
	whole, part := st.debt(now)
	left, rest := muldiv(requests, span-whole, span)
	if rest < part {
		left -= (part - rest + span - 1) / span
	}
	reset = whole
	if part > 0 {
		reset++
	}
	return left, reset, st.bucketRetry(span, now, requests, cost)
}

func (st *state) bucketRetry(span, now, requests, cost int64) int64 {
	whole, part := st.after(span, now, requests, cost)
	if part > 0 {
		whole++
	}
	return whole - span
}

// divideUp returns a*b/d, rounded up.
func divideUp(a, b, d int64) int64 {
	q, r := muldiv(a, b, d)
	if r > 0 {
		q++
	}
	return q
}

// muldiv returns a*b/d and its remainder, for a*b up to 128 bits.
func muldiv(a, b, d int64) (quotient, remainder int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(hi, lo, uint64(d))
	return int64(q), int64(r)
}
