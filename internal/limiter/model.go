package limiter

import (
	"slices"
	"time"

	"tidegate/internal/limiter/calendar"
)

// Model is the limiter without I/O: the state of one subject, and the step of the scripts
// in Go. Tests compare the scripts with it, simulations run on it, and package decide
// uses it while Valkey is unavailable. The zero value is a subject that never called. A
// Model is not safe for concurrent use.
type Model struct {
	sections []section
	states   []state
}

// state is the state of a section. Times are microseconds.
type state struct {
	// Of a log:
	slots    []int64   // time of the latest call of each slot, oldest first
	deficits []deficit // calls missing in slots that are not the newest
	fill     int64     // calls of the newest slot; the others stand for a whole group
	offset   int64     // how far the log's clock is ahead of a server's clock that stepped back
	keep     int64     // number of slots to keep; only for a log that counts denied calls
	// Of a counter or fixed window:
	start     int64 // start of the current window
	prev, cur int64 // cost counted in the previous and in the current window
	// Of a token bucket, which is full at whole + part/requests:
	whole, part, requests int64
	valleys               valleys
}

// Take decides about cost at the instant now, and takes it if every enforced limit admits
// it. The limits may differ from call to call: the state is carried over as far as the
// algorithms allow. Its only error is ErrCost, as for Limiter.Take.
func (m *Model) Take(now time.Time, limits []Limit, cost int64) (Decision, error) {
	return m.take(now, limits, cost, false)
}

// Reserve is Take for a cost that may be refunded. See Limiter.Reserve.
func (m *Model) Reserve(now time.Time, limits []Limit, cost int64) (Decision, error) {
	return m.take(now, limits, cost, true)
}

func (m *Model) take(now time.Time, limits []Limit, cost int64, reserve bool) (Decision, error) {
	if err := checkCost(cost, limits); err != nil {
		return Decision{}, err
	}
	return m.step(now.UnixMicro(), limits, cost, cost, reserve), nil
}

// Peek returns the Decision of a Take of cost 1, but takes nothing.
func (m *Model) Peek(now time.Time, limits []Limit) Decision {
	return m.step(now.UnixMicro(), limits, 1, 0, false)
}

// Refund gives back cost that was taken at the instant taken. It returns the Decision of
// a Peek, with Unreturned. It does not change the limits in shadow mode in the mask
// spared, as Program.Sparing describes. See Limiter.Refund.
func (m *Model) Refund(now time.Time, limits []Limit, cost int64, taken time.Time,
	spared byte) Decision {
	s := m.open(now.UnixMicro(), limits)
	unreturned := int64(0)
	for i, sec := range m.sections {
		if sec.shadow && spared&(1<<slices.Index(s.of, i)) != 0 {
			continue
		}
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

// step is one step on a Model whose state fits the limits and the time.
type step struct {
	model   *Model
	now     int64 // microseconds
	limits  []Limit
	of      []int              // index of each limit's section
	shifts  [][]calendar.Shift // by section; nil without a calendar
	reserve bool               // the cost may be refunded
	changed bool               // the state was carried over or moved: store it even if the call is denied
}

// open carries the state over to the limits, and advances it to the time now.
func (m *Model) open(now int64, limits []Limit) *step {
	sections, of := sectionsOf(limits)
	s := &step{model: m, now: now, limits: limits, of: of, shifts: make([][]calendar.Shift, len(sections))}
	for i, sec := range sections {
		if sec.calendar != NoCalendar {
			s.shifts[i] = sec.calendar.Shifts(sec.zone, time.UnixMicro(now))
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
	stored := s.changed
	switch {
	case d.Allowed && take > 0:
		s.reserve = reserve && len(m.sections) < MaxLimits
		stored = s.record(take, s.admitting(d)) || stored
		admitted := s.usage(cost)
		for i := range d.Limits {
			admitted.Limits[i].RetryAfter = d.Limits[i].RetryAfter
			d.Limits[i] = admitted.Limits[i]
		}
	case take > 0 && s.hasAttempts():
		stored = s.record(take, func(i int) bool { return m.sections[i].kind == attemptsKind }) || stored
		d = s.usage(cost)
		d.Allowed = false
	}
	if !stored {
		*m = before // as in Valkey: if the clock steps back, the next step finds the old state
	}
	return d
}

// hasAttempts reports whether a section is a log that counts denied calls.
func (s *step) hasAttempts() bool {
	return slices.ContainsFunc(s.model.sections, func(sec section) bool { return sec.kind == attemptsKind })
}

// admitting returns a function that selects the sections that record an admitted cost. It
// leaves out limits in shadow mode that the cost exceeds, except logs that count denied
// calls.
func (s *step) admitting(d Decision) func(section int) bool {
	exceeded := Exceeded(d.Limits)
	return func(i int) bool {
		return exceeded&(1<<slices.Index(s.of, i)) == 0 || s.model.sections[i].kind == attemptsKind
	}
}

// record adds cost to every wanted section that has a limit of at least cost. It reports
// whether there was such a section.
func (s *step) record(cost int64, wanted func(section int) bool) (recorded bool) {
	for i, sec := range s.model.sections {
		if !wanted(i) || cost > s.requests(i) {
			continue
		}
		recorded = true
		st := &s.model.states[i]
		switch {
		case sec.kind.isLog():
			st.admit(sec, s.now+st.offset, cost, (s.requests(i)+sec.group-1)/sec.group+1)
		case sec.kind == bucketKind:
			st.valleys.add(s.now, st.debt(s.now), s.reserve)
			st.fillBucket(sec.span, s.now, s.requests(i), cost)
		default:
			st.cur += cost
		}
	}
	return recorded
}

// usage evaluates every limit for a cost.
func (s *step) usage(cost int64) Decision {
	d := Decision{Allowed: true, Now: time.UnixMicro(s.now).UTC(), Limits: make([]Usage, len(s.limits))}
	for i, l := range s.limits {
		st := &s.model.states[s.of[i]]
		left, reset, retry := s.usageOf(st, i, min(cost, l.Requests))
		if cost > l.Requests { // possible in shadow mode only
			retry = MaxWindow.Microseconds()
		}
		d.Limits[i] = Usage{Limit: l, Remaining: max(0, left), Reset: micros(reset),
			RetryAfter: micros(retry)}
		if more := d.Limits[i].Remaining + 1; more <= l.Requests {
			_, _, next := s.usageOf(st, i, more)
			d.Limits[i].Next = micros(next)
		}
		d.Allowed = d.Allowed && (l.Shadow || d.Limits[i].RetryAfter == 0)
	}
	return d
}

// usageOf evaluates limit i for a cost. left is the remaining cost, which is negative if
// more than the limit is taken. reset and retry are the microseconds until the window is
// empty and until the cost passes.
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

// advance advances a section's state to the time now. It reports whether the state must
// therefore be stored, because the clock stepped back or a limit changed.
func (st *state) advance(sec section, now, requests int64, shifts []calendar.Shift) (moved bool) {
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

// refund gives back a cost. It returns the part of the cost that the section may still
// count afterwards. For a call that has left the window it gives nothing back and returns
// 0, because the section no longer counts the call.
func (st *state) refund(sec section, r refund) (unreturned int64) {
	switch sec.kind {
	case counterKind:
		switch {
		case r.taken >= st.start+sec.span: // the clock stepped back: the call's window is unknown
			return min(r.cost, st.cur+st.prev)
		case r.taken >= st.start:
			st.cur -= min(st.cur, r.cost)
		case r.taken >= st.start-sec.span:
			st.prev -= min(st.prev, r.cost)
		}
		return 0
	case fixedKind:
		if r.taken >= r.ends {
			return min(r.cost, st.cur)
		}
		if r.taken >= st.start {
			st.cur -= min(st.cur, r.cost)
		}
		return 0
	case bucketKind:
		return st.refundBucket(sec.span, r)
	default:
		return st.refundLog(sec, r)
	}
}

// refund is a refund of one section. Times are microseconds on the server's clock.
type refund struct {
	now      int64
	cost     int64
	taken    int64 // when the cost was taken
	requests int64 // largest limit of the section
	ends     int64 // end of the current window; only for a fixed window
	whole    bool  // refund whole slots only: the state has no room for deficits
}

// micros converts microseconds to a Duration; 0 if they are negative.
func micros(us int64) time.Duration { return time.Duration(max(0, us)) * time.Microsecond }
