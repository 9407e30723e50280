package limiter

import (
	"math/bits"
	"slices"
	"time"
)

// Model is the limiter without I/O: one subject's state and the same step that the script makes, as plain Go. It is the oracle that the script is
// tested against, and what simulations run on. The zero value is a subject that never called. A Model is not safe for concurrent use.
type Model struct {
	log      []int64 // times of admitted cost, microseconds on the log's clock, oldest first
	offset   int64   // how far the log's clock is ahead of the server's, after steps back
	horizon  int64   // the longest Log window when the log was last used; 0 without a log
	counters []window
}

// window is a counter: two adjacent fixed windows, aligned to the epoch.
type window struct{ size, start, prev, cur int64 }

// Take decides about cost at the instant now, and takes it when every limit admits it. Limits may differ from call to call: history is kept as far as
// the algorithms allow. It fails as Limiter.Take does.
func (m *Model) Take(now time.Time, limits []Limit, cost int64) (Decision, error) {
	if err := checkCost(cost, limits); err != nil {
		return Decision{}, err
	}
	return m.step(now.UnixMicro(), limits, cost, cost), nil
}

// Peek returns what Take would answer for a cost of 1, and takes nothing.
func (m *Model) Peek(now time.Time, limits []Limit) Decision {
	return m.step(now.UnixMicro(), limits, 1, 0)
}

func (m *Model) step(now int64, limits []Limit, cost, take int64) Decision {
	before := m.counters
	changed := m.fit(now, limits)
	at, stepped := m.logTime(now)
	d := Decision{Allowed: true, Now: time.UnixMicro(now).UTC(), Limits: make([]Usage, len(limits))}
	section := 0
	for i, l := range limits {
		if l.Algorithm == Log {
			d.Limits[i] = m.logUsage(at, l, cost)
		} else {
			d.Limits[i] = m.counters[section].usage(now, l, cost)
			section++
		}
		d.Allowed = d.Allowed && d.Limits[i].RetryAfter == 0
	}
	switch {
	case d.Allowed && take > 0:
		m.admit(now, at, &d, take)
	case !changed && !stepped:
		m.counters = before // nothing is stored, so a clock that steps back finds the counters as they were
	}
	return d
}

func (m *Model) admit(now, at int64, d *Decision, cost int64) {
	for i := range m.counters {
		m.counters[i].cur += cost
	}
	if m.horizon > 0 {
		for range cost {
			m.log = append(m.log, at)
		}
		m.dropBefore(at - m.horizon)
	}
	section := 0
	for i := range d.Limits {
		u := &d.Limits[i]
		u.Remaining -= cost
		u.Reset = u.Limit.Window
		if u.Limit.Algorithm == Counter {
			u.Reset = micros(m.counters[section].reset(now))
			section++
		}
	}
}

// logTime moves the log's clock on to now, or holds it at the newest entry when the server's clock stepped back.
func (m *Model) logTime(now int64) (at int64, stepped bool) {
	at = now + m.offset
	if n := len(m.log); n > 0 && m.log[n-1] > at {
		m.offset += m.log[n-1] - at
		return m.log[n-1], true
	}
	return at, false
}

func (m *Model) logUsage(at int64, l Limit, cost int64) Usage {
	u := Usage{Limit: l, Remaining: l.Requests}
	size, used := l.Window.Microseconds(), int64(len(m.log))
	if used == 0 {
		return u
	}
	if i := used - l.Requests + cost - 1; i >= 0 {
		u.RetryAfter = micros(size - (at - m.log[i]))
	}
	u.Remaining = max(0, l.Requests-m.liveSince(at-size))
	u.Reset = micros(size - (at - m.log[used-1]))
	return u
}

// liveSince counts the entries later than t.
func (m *Model) liveSince(t int64) int64 {
	n := int64(0)
	for i := len(m.log) - 1; i >= 0 && m.log[i] > t; i-- {
		n++
	}
	return n
}

// fit carries the state over to the limits' windows and algorithms, and rolls the counters to now. It reports whether it did more than roll forward.
func (m *Model) fit(now int64, limits []Limit) (changed bool) {
	longest, sizes := layout(limits)
	horizon := longest.Microseconds()
	if m.horizon != horizon || !m.sameCounters(sizes) {
		changed = m.horizon > 0 || len(m.counters) > 0
		m.rebuild(now, horizon, sizes, limits)
	}
	m.counters = slices.Clone(m.counters)
	for i := range m.counters {
		changed = m.counters[i].roll(now) || changed
	}
	return changed
}

func (m *Model) sameCounters(sizes []time.Duration) bool {
	if len(sizes) != len(m.counters) {
		return false
	}
	for i, s := range sizes {
		if m.counters[i].size != s.Microseconds() {
			return false
		}
	}
	return true
}

// rebuild moves the history into another set of windows. A counter keeps its own window's counts; a new counter starts from what the log holds, or
// without a log from the largest estimate of the old counters. A new log starts from that estimate, as if admitted now. Both are on the strict side.
func (m *Model) rebuild(now, horizon int64, sizes []time.Duration, limits []Limit) {
	hadLog, old, estimated := m.horizon > 0, m.counters, int64(0)
	for i := range old {
		old[i].roll(now)
		estimated = max(estimated, old[i].estimate(now))
	}
	at, _ := m.logTime(now)
	if hadLog {
		keep := m.horizon
		if horizon > 0 {
			keep = min(keep, horizon)
		}
		m.dropBefore(at - keep)
	}
	m.counters = make([]window, len(sizes))
	for i, s := range sizes {
		m.counters[i] = m.carried(now, at, s.Microseconds(), old, hadLog, estimated)
	}
	switch {
	case horizon == 0:
		m.log, m.offset = nil, 0
	case !hadLog:
		for range min(estimated, mostLogged(limits)) {
			m.log = append(m.log, at)
		}
	}
	m.horizon = horizon
}

func (m *Model) carried(now, at, size int64, old []window, hadLog bool, estimated int64) window {
	for _, w := range old {
		if w.size == size {
			return w
		}
	}
	if hadLog {
		estimated = m.liveSince(at - size)
	}
	return window{size: size, start: now - now%size, cur: estimated}
}

func mostLogged(limits []Limit) int64 {
	most := int64(0)
	for _, l := range limits {
		if l.Algorithm == Log {
			most = max(most, l.Requests)
		}
	}
	return most
}

func (m *Model) dropBefore(t int64) {
	i := 0
	for i < len(m.log) && m.log[i] <= t {
		i++
	}
	m.log = m.log[i:]
}

// roll moves the counter to the window of now; when the server's clock stepped back, it moves the counts back with it and says so.
func (w *window) roll(now int64) (back bool) {
	current := now - now%w.size
	switch {
	case current == w.start+w.size:
		w.prev, w.cur = w.cur, 0
	case current > w.start:
		w.prev, w.cur = 0, 0
	}
	back = current < w.start
	w.start = current
	return back
}

// estimate is the weighted count of the rolling window that ends now, rounded up.
func (w *window) estimate(now int64) int64 {
	whole, exact := muldiv(w.prev, w.size-(now-w.start), w.size)
	if !exact {
		whole++
	}
	return w.cur + whole
}

func (w *window) reset(now int64) int64 {
	switch {
	case w.cur > 0:
		return w.start + 2*w.size - now
	case w.prev > 0:
		return w.start + w.size - now
	}
	return 0
}

func (w *window) usage(now int64, l Limit, cost int64) Usage {
	left := l.Requests - w.estimate(now)
	u := Usage{Limit: l, Remaining: max(0, left), Reset: micros(w.reset(now))}
	if cost <= left {
		return u
	}
	elapsed := now - w.start
	if w.cur+cost <= l.Requests {
		overlap, _ := muldiv(l.Requests-w.cur-cost, w.size, w.prev)
		u.RetryAfter = micros(w.size - overlap - elapsed)
	} else {
		overlap, _ := muldiv(l.Requests-cost, w.size, w.cur)
		u.RetryAfter = micros(2*w.size - overlap - elapsed)
	}
	return u
}

// muldiv returns floor(a*b/d), for a*b up to 128 bits, and whether the division is exact.
func muldiv(a, b, d int64) (quotient int64, exact bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(hi, lo, uint64(d))
	return int64(q), r == 0
}

// micros is a span of microseconds as a Duration, 0 when negative.
func micros(us int64) time.Duration { return time.Duration(max(0, us)) * time.Microsecond }
