package limiter

import (
	"math/bits"
	"time"
)

// roll moves a counter to the window of now. If the server's clock stepped back, roll
// moves the counts back with it and returns true.
func (p *part) roll(now int64) (back bool) {
	span := p.window
	current := now - now%span
	switch {
	case current == p.start+span:
		p.prev, p.cur = p.cur, 0
	case current > p.start:
		p.prev, p.cur = 0, 0
	}
	back = current < p.start
	p.start = current
	return back
}

// estimate returns the weighted count of the rolling window that ends now, rounded up.
func (p *part) estimate(now int64) int64 {
	return p.cur + divideUp(p.prev, p.window-(now-p.start), p.window)
}

// counterUsage evaluates a counter for a cost. It returns what usageOf returns.
func (p *part) counterUsage(now, requests, cost int64) (left, reset, retry int64) {
	span := p.window
	left = requests - p.estimate(now)
	elapsed := now - p.start
	switch {
	case p.cur > 0:
		reset = 2*span - elapsed
	case p.prev > 0:
		reset = span - elapsed
	}
	if cost <= left {
		return left, reset, 0
	}
	if p.cur+cost <= requests {
		overlap, _ := muldiv(requests-p.cur-cost, span, p.prev)
		return left, reset, span - overlap - elapsed
	}
	overlap, _ := muldiv(requests-cost, span, p.cur)
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

// period returns the present window of a counter or fixed window.
func (s section) period(now int64) (start, end int64) {
	if s.kind == fixedKind && s.group != 0 {
		c := Calendar(s.group)
		return c.Around(now, c.Shifts(s.zone, time.UnixMicro(now)))
	}
	start = now - now%s.window
	return start, start + s.window
}
