package accuracy

import (
	"math"
	"math/bits"
)

const millisecond = 1000 // microseconds

// pair counts calls in two adjacent aligned windows. Times may be in any unit.
type pair struct {
	window, index, prev, cur int64
}

func (p *pair) roll(now int64) {
	switch index := now / p.window; {
	case index == p.index+1:
		p.index, p.prev, p.cur = index, p.cur, 0
	case index > p.index:
		p.index, p.prev, p.cur = index, 0, 0
	}
}

// twoWindow admits while the weighted count of admitted calls, rounded down, is below the
// limit. Its clock has milliseconds. A denial's retry-after is the end of the window.
type twoWindow struct {
	pair
	limit, retry int64
}

func newTwoWindow(limit, window int64) decider {
	return &twoWindow{pair: pair{window: window / millisecond}, limit: limit}
}

func (t *twoWindow) Take(now, cost int64) bool {
	if !t.passes(now, cost) {
		ends := (now/millisecond/t.window + 1) * t.window * millisecond
		t.retry = ends - now
		return false
	}
	t.roll(now / millisecond)
	t.cur += cost
	return true
}

func (t *twoWindow) retryAfter() int64 { return t.retry }

// passes compares the count before the call, so a call that costs more than 1 may exceed
// the limit.
func (t *twoWindow) passes(now, _ int64) bool {
	at := t.pair
	at.roll(now / millisecond)
	passed := float64(now/millisecond%at.window) / float64(at.window)
	// Floating point, as in the original: its rounding is visible. No term follows the
	// product, so no processor fuses it with an addition.
	return int64(math.Floor((1-passed)*float64(at.prev)))+at.cur < t.limit
}

// twoWindowAll counts every call, then denies it when the weighted count exceeds the
// limit.
type twoWindowAll struct {
	pair
	limit int64
}

func newTwoWindowAll(limit, window int64) decider {
	return &twoWindowAll{pair: pair{window: window}, limit: limit}
}

func (t *twoWindowAll) Take(now, cost int64) bool {
	t.roll(now)
	t.cur += cost
	hi, lo := bits.Mul64(uint64(t.prev), uint64(t.window-now%t.window))
	weighted, rest := bits.Div64(hi, lo, uint64(t.window))
	if rest > 0 {
		weighted++
	}
	return t.cur+int64(weighted) <= t.limit
}
