package limiter

import (
	"math/bits"

	"tidegate/internal/limiter/calendar"
)

// roll moves a counter to the window of now. If the server's clock stepped back, roll
// moves the counts back with it and returns true.
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

// estimate returns the weighted count of the rolling window that ends now, rounded up.
func (st *state) estimate(span, now int64) int64 {
	return st.cur + divideUp(st.prev, span-(now-st.start), span)
}

// counterUsage evaluates a counter for a cost. It returns what usageOf returns.
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

// period returns the fixed window that contains now.
func (s section) period(now int64, shifts []calendar.Shift) (start, end int64) {
	if s.calendar != NoCalendar {
		return s.calendar.Around(now, shifts)
	}
	start = now - now%s.span
	return start, start + s.span
}

// fixedUsage evaluates a fixed window for a cost. It returns what usageOf returns.
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
