package limiter

import (
	"slices"
	"sort"
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

// missing counts the calls of deficits later than t.
func (st *state) missing(t int64) (calls int64) {
	for _, d := range st.deficits {
		if d.at > t {
			calls += d.calls
		}
	}
	return calls
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

// leaving returns the index of the slot that has to leave the window for calls to remain
// at most; -1 when that many remain anyway.
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
