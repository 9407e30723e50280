package accuracy

import (
	"math"
	"math/bits"
	"slices"
)

// The names of published algorithms. They are implemented here as docs/algorithms.md
// describes, to compare Tidegate's with them.
const (
	TwoWindow    = "two-window"
	TwoWindowAll = "two-window-all"
	ZSETScript   = "zset-script"
	ZSETPipeline = "zset-pipeline"
	ZSETAll      = "zset-all"
)

var published = []Algorithm{
	{Name: TwoWindow, Title: "two-window estimate, Upstash", build: one(newTwoWindow)},
	{Name: TwoWindowAll, Title: "two-window estimate, Cloudflare", build: one(newTwoWindowAll)},
	{Name: ZSETScript, Title: "ZSET log, script", build: one(newZSETScript)},
	{Name: ZSETPipeline, Title: "ZSET log, pipeline", build: one(newZSETPipeline)},
	{Name: ZSETAll, Title: "ZSET log, add first", build: one(newZSETAll)},
}

// one returns a function that builds an algorithm that has one limit.
func one(build func(limit, window int64) decider) func(limits []bound) decider {
	return func(limits []bound) decider { return build(limits[0].limit, limits[0].window) }
}

// compared returns the algorithms of compare's outcomes.
func compared() []Algorithm { return slices.Concat(algorithms, published) }

// compare runs a scenario that must be valid, and its calls through the published
// algorithms too.
func compare(s Scenario) Result {
	result := mustRun(s)
	r := newRun(s)
	for _, a := range published {
		result.Outcomes = append(result.Outcomes, r.play(a))
	}
	return result
}

const millisecond = 1000 // microseconds

// pair counts calls in two adjacent aligned windows. Times may be in any unit.
type pair struct {
	window, index, prev, cur int64
}

// roll moves the pair to the window of now. A now in an earlier window changes nothing.
func (p *pair) roll(now int64) {
	switch index := now / p.window; {
	case index == p.index+1:
		p.index, p.prev, p.cur = index, p.cur, 0
	case index > p.index:
		p.index, p.prev, p.cur = index, 0, 0
	}
}

// twoWindow admits a call while the weighted count of admitted calls, rounded down, is
// below the limit. Its clock has a resolution of a millisecond. A denial's retry-after is
// the end of the window.
type twoWindow struct {
	pair
	limit, retry int64 // retry is the last denial's retry-after in microseconds
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
	p := t.pair
	p.roll(now / millisecond)
	elapsed := float64(now/millisecond%p.window) / float64(p.window)
	// Floating point, as in the original, because its rounding is visible. Nothing is
	// added to the product before it is rounded down, so no processor fuses the two.
	return int64(math.Floor((1-elapsed)*float64(p.prev)))+p.cur < t.limit
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

// zset is a sorted set of the times of calls. Equal members are one member, as in Valkey.
type zset struct {
	times  []int64
	unique bool // members are never equal
}

// dropThrough is ZREMRANGEBYSCORE from 0 to t.
func (z *zset) dropThrough(t int64) {
	i := 0
	for i < len(z.times) && z.times[i] <= t {
		i++
	}
	z.times = z.times[i:]
}

// add is ZADD. Calls come in time order, so only the last member can be equal.
func (z *zset) add(now int64) {
	if n := len(z.times); n > 0 && !z.unique && z.times[n-1] == now {
		return
	}
	z.times = append(z.times, now)
}

func (z *zset) stored() int { return len(z.times) }

// live counts the members later than t.
func (z *zset) live(t int64) int64 {
	n := int64(len(z.times))
	for _, at := range z.times {
		if at > t {
			break
		}
		n--
	}
	return n
}

// zsetLog ignores costs: every call is one member.
type zsetLog struct {
	zset
	limit, window int64
}

// zsetScript stores admitted calls only. Its clock has a resolution of a millisecond. A
// denial's retry-after is the time until the oldest member expires, rounded up to
// seconds.
type zsetScript struct {
	zsetLog
	retry int64
}

func newZSETScript(limit, window int64) decider {
	return &zsetScript{zsetLog: zsetLog{zset: zset{unique: true}, limit: limit, window: window}}
}

func (z *zsetScript) Take(now, _ int64) bool {
	now -= now % millisecond
	z.dropThrough(now - z.window)
	if int64(len(z.times)) >= z.limit {
		const second = 1_000_000
		z.retry = (z.times[0] + z.window - now + second - 1) / second * second
		return false
	}
	z.add(now)
	return true
}

func (z *zsetScript) retryAfter() int64 { return z.retry }

func (z *zsetScript) passes(now, _ int64) bool { return z.live(now-now%millisecond-z.window) < z.limit }

// zsetPipeline counts the members, then always adds the call.
type zsetPipeline struct{ zsetLog }

func newZSETPipeline(limit, window int64) decider {
	return &zsetPipeline{zsetLog{limit: limit, window: window}}
}

func (z *zsetPipeline) Take(now, _ int64) bool {
	z.dropThrough(now - z.window)
	count := int64(len(z.times))
	z.add(now)
	return count < z.limit
}

// zsetAll adds the call, then counts.
type zsetAll struct{ zsetLog }

func newZSETAll(limit, window int64) decider {
	return &zsetAll{zsetLog{limit: limit, window: window}}
}

func (z *zsetAll) Take(now, _ int64) bool {
	z.dropThrough(now - z.window)
	z.add(now)
	return int64(len(z.times)) <= z.limit
}
