package limiter

import (
	"math/bits"
	"slices"
	"time"
)

// Model is the limiter without I/O: one subject's state and the same step that the script
// makes, as plain Go. It is the oracle that the script is tested against, and what
// simulations run on. The zero value is a subject that never called. A Model is not safe
// for concurrent use.
type Model struct {
	sections []section
	states   []state
}

// state is what a section holds. Times are microseconds.
type state struct {
	// A log: the time of the latest call of each slot, oldest first; how many calls the
	// newest slot stands for (the others stand for a whole group, but for deficits); how
	// far the log's clock is ahead of the server's after steps back; how many slots a log
	// of attempts keeps.
	slots    []int64
	deficits []deficit
	fill     int64
	offset   int64
	keep     int64
	// A counter or fixed window: where the current window starts, the calls of the
	// previous and of the current one.
	start, prev, cur int64
	// A token bucket: full again at whole + part/requests microseconds.
	whole, part, requests int64
	valleys               valleys
}

// Take decides about cost at the instant now, and takes it when every limit admits it.
// Limits may differ from call to call: history is kept as far as the algorithms allow. It
// fails as Limiter.Take does.
func (m *Model) Take(now time.Time, limits []Limit, cost int64) (Decision, error) {
	if err := checkCost(cost, limits); err != nil {
		return Decision{}, err
	}
	return m.step(now.UnixMicro(), limits, cost, cost, false), nil
}

// Reserve is Take of a cost of which some may be given back. See Limiter.Reserve.
func (m *Model) Reserve(now time.Time, limits []Limit, cost int64) (Decision, error) {
	if err := checkCost(cost, limits); err != nil {
		return Decision{}, err
	}
	return m.step(now.UnixMicro(), limits, cost, cost, true), nil
}

// Peek returns what Take would answer for a cost of 1, and takes nothing.
func (m *Model) Peek(now time.Time, limits []Limit) Decision {
	return m.step(now.UnixMicro(), limits, 1, 0, false)
}

// Refund gives back cost that was taken at the instant taken, and returns what Peek
// would. See Limiter.Refund.
func (m *Model) Refund(now time.Time, limits []Limit, cost int64, taken time.Time) Decision {
	s := m.open(now.UnixMicro(), limits)
	unreturned := int64(0)
	for i, sec := range m.sections {
		r := refund{
			now: s.now, cost: cost, taken: taken.UnixMicro(), requests: s.requests(i),
			whole: len(m.sections) == MaxLimits,
		}
		if sec.kind == fixedKind {
			_, r.ends = sec.period(s.now, s.shifts[i])
		}
		unreturned = max(unreturned, m.states[i].refund(sec, r))
	}
	d := s.usage(1)
	d.Unreturned = unreturned
	return d
}

// step is one call on an opened state.
type step struct {
	model   *Model
	now     int64
	limits  []Limit
	of      []int // the section of each limit
	shifts  [][]shift
	reserve bool // some of the cost may be given back
	changed bool // the state was carried over or moved, and has to be stored whatever the decision
}

// open fits the state to the limits and to the time.
func (m *Model) open(now int64, limits []Limit) *step {
	sections, of := sectionsOf(limits)
	s := &step{model: m, now: now, limits: limits, of: of, shifts: make([][]shift, len(sections))}
	for i, sec := range sections {
		if sec.calendar != NoCalendar {
			s.shifts[i] = shiftsOf(sec.zone, time.UnixMicro(now))
		}
	}
	if !slices.EqualFunc(m.sections, sections, section.same) {
		s.changed = len(m.sections) > 0
		m.rebuild(s, sections)
	}
	m.sections = sections
	m.states = slices.Clone(m.states)
	for i := range m.states {
		s.changed = m.states[i].advance(sections[i], now, s.requests(i), s.shifts[i]) || s.changed
	}
	return s
}

// same reports whether two sections hold the same; a zone only moves the boundaries of
// its windows.
func (s section) same(o section) bool {
	return s.kind == o.kind && s.group == o.group && s.span == o.span && s.calendar == o.calendar
}

// requests returns the largest limit of a section.
func (s *step) requests(section int) int64 {
	most := int64(0)
	for i, of := range s.of {
		if of == section {
			most = max(most, s.limits[i].Requests)
		}
	}
	return most
}

func (m *Model) step(now int64, limits []Limit, cost, take int64, reserve bool) Decision {
	before := *m
	s := m.open(now, limits)
	d := s.usage(cost)
	switch {
	case d.Allowed && take > 0:
		s.reserve = reserve && len(m.sections) < MaxLimits
		s.record(take, func(kind) bool { return true })
		admitted := s.usage(cost)
		for i := range d.Limits {
			admitted.Limits[i].RetryAfter = d.Limits[i].RetryAfter
			d.Limits[i] = admitted.Limits[i]
		}
	case take > 0 && s.hasAttempts():
		s.record(take, func(k kind) bool { return k == attemptsKind })
		d = s.usage(cost)
		d.Allowed = false
	case !s.changed:
		*m = before // nothing is stored, so a clock that steps back finds the state as it was
	}
	return d
}

func (s *step) hasAttempts() bool {
	return slices.ContainsFunc(s.model.sections, func(sec section) bool { return sec.kind == attemptsKind })
}

// record adds cost to every section that is asked for.
func (s *step) record(cost int64, wanted func(kind) bool) {
	for i, sec := range s.model.sections {
		if !wanted(sec.kind) {
			continue
		}
		st := &s.model.states[i]
		switch {
		case sec.kind.isLog():
			st.admit(sec, s.now+st.offset, cost, (s.requests(i)+sec.group-1)/sec.group+1)
		case sec.kind == bucketKind:
			whole, part := st.debt(s.now)
			st.valleys.note(s.now, debt{whole, part}, s.reserve)
			st.fillBucket(sec.span, s.now, s.requests(i), cost)
		default:
			st.cur += cost
		}
	}
}

// usage evaluates every limit for a cost.
func (s *step) usage(cost int64) Decision {
	d := Decision{Allowed: true, Now: time.UnixMicro(s.now).UTC(), Limits: make([]Usage, len(s.limits))}
	for i, l := range s.limits {
		st := &s.model.states[s.of[i]]
		left, reset, retry := s.usageOf(st, i, cost)
		d.Limits[i] = Usage{Limit: l, Remaining: max(0, left), Reset: micros(reset), RetryAfter: micros(retry)}
		if more := d.Limits[i].Remaining + 1; more <= l.Requests {
			_, _, next := s.usageOf(st, i, more)
			d.Limits[i].Next = micros(next)
		}
		d.Allowed = d.Allowed && d.Limits[i].RetryAfter == 0
	}
	return d
}

// usageOf evaluates one limit for a cost: what is left, below 0 when more is taken than
// the limit, and the times until the window is empty and until the cost passes.
func (s *step) usageOf(st *state, i int, cost int64) (left, reset, retry int64) {
	l, sec := s.limits[i], s.model.sections[s.of[i]]
	switch sec.kind {
	case counterKind:
		return st.counterUsage(sec.span, s.now, l.Requests, cost)
	case bucketKind:
		return st.bucketUsage(sec.span, s.now, l.Requests, cost)
	case fixedKind:
		return st.fixedUsage(sec, s.shifts[s.of[i]], s.now, l.Requests, cost)
	default:
		return st.logUsage(sec, s.now+st.offset, l.Window.Microseconds(), l.Requests, cost)
	}
}

// advance brings a section's state to the time now. It reports whether that did more than
// let time pass.
func (st *state) advance(sec section, now, requests int64, shifts []shift) (moved bool) {
	switch sec.kind {
	case counterKind:
		return st.roll(sec.span, now)
	case bucketKind:
		return st.advanceBucket(sec.span, now, requests)
	case fixedKind:
		start, _ := sec.period(now, shifts)
		moved = start < st.start
		if start > st.start {
			st.cur = 0
		}
		st.start = start
		return moved
	default:
		n := len(st.slots)
		if n == 0 || st.slots[n-1] <= now+st.offset {
			return false
		}
		st.offset = st.slots[n-1] - now
		return true
	}
}

func (s section) period(now int64, shifts []shift) (start, end int64) {
	if s.calendar != NoCalendar {
		return s.calendar.period(now, shifts)
	}
	start = now - now%s.span
	return start, start + s.span
}

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
	// The newest slots that may stay in the window beside this cost; the one before them
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

func (st *state) fixedUsage(sec section, shifts []shift, now, requests, cost int64) (left, reset, retry int64) {
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

// micros is a span of microseconds as a Duration, 0 when negative.
func micros(us int64) time.Duration { return time.Duration(max(0, us)) * time.Microsecond }
