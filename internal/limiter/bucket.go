package limiter

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
