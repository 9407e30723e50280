package limiter

import (
	"slices"
	"time"
)

// Model is the limiter without I/O: the state of one subject, and the step of the script
// in Go. The scripts are its translation, and tests compare them. Simulations run on it,
// and package decide uses it while Valkey is unavailable. The zero value is a subject
// that never called. A Model is not safe for concurrent use.
//
// A state is a list of parts, one for each section that a program of the subject ever
// named and that may still count something. A part is found by its identity, not by its
// place. So a list of limits that comes back finds what it counted:
//
//   - Parts that a step's program names come first when the state is rewritten. The others
//     stay as they are until they expire, at most two windows after their last call.
//   - A state has at most maxParts parts. Of more, those that expire first go.
//   - A log keeps the longest window of its programs until no program has named that window
//     for its length. A log that gets a longer window has what the shorter one held.
//   - A new part starts with what the others know of its window: the calls of a log, or the
//     count of a part whose window is not longer (see seed).
//
// A state in Valkey has this layout. Integers are big-endian, times are microseconds since
// 1970 unless stated otherwise.
//
//	1 byte   stateVersion
//	1 byte   number of parts
//	2 bytes  length of the head: these four bytes and the entries of the parts
//	for each log an entry of 56 bytes:
//	  11 identity: 1 kind (sectionID.kindByte), 4 calls per slot, 6 bytes per slot
//	   4 time since when it counts every call (seconds since 1970; 0 for always)
//	   6 longest window
//	   4 number of slots to keep
//	   7 base: time of the newest slot at the last rewrite
//	   7 offset: how far its clock is ahead of a server's clock that stepped back
//	   4 room (slots)
//	   1 number of deficits
//	   4 time since when no program has named the window (seconds since 1970; 0 for none)
//	   4 used slots
//	   4 calls of the newest slot
//	for each other part an entry of 30 bytes:
//	  11 identity: 1 kind, 4 calendar of a fixed window or limit of a token bucket,
//	     6 window, or a hash of a calendar's time zone
//	   4 time since when it counts every call, as above
//	   7 start of the window; of a token bucket: when it is full
//	   4 previous count; of a token bucket: when it is full, parts of a microsecond
//	   4 count
//	for each log, in the order of the entries: its slots, then its deficits
//
// A slot has the low bits of the time of its latest call, and its top bit is set. Slots
// are in time order. A deficit has 11 bytes: 7 time, 4 calls.
type Model struct{ parts []part }

const (
	maxParts = 32 // a program names at most 24: 8 limits in shadow mode with their enforced twins, 8 counted
	seeds    = 64 // the calls of a new log are taken over in at most so many lumps
)

// part is a section's part of a state. Times are microseconds since 1970.
type part struct {
	sectionID
	since int64 // seconds since 1970; 0 if it has counted every call in its window

	// Of a log:
	width    int64     // bytes per slot
	span     int64     // longest window
	keep     int64     // number of slots to keep: older ones decide nothing
	idle     int64     // since when no program has named span (seconds since 1970); 0 for none
	base     int64     // time of the newest slot when the state was last rewritten
	room     int64     // number of slots that the stored part can hold
	offset   int64     // how far the log's clock is ahead of a server's clock that stepped back
	slots    []int64   // time of the latest call of each slot, oldest first
	fill     int64     // calls of the newest slot; the others stand for a whole group
	deficits []deficit // calls missing in slots that are not the newest
	// Of a counter or fixed window:
	start     int64 // start of the current window
	prev, cur int64 // cost counted in the previous and in the current window
	// Of a token bucket: when it is full, at whole + part/limit
	whole, part int64
}

// Step is one step on a Model.
type Step struct {
	Now    time.Time // the server's time
	Limits []Limit   // decide
	// Counted only count: the limits that an override replaces. They deny nothing.
	Counted []Limit
	// Cost is taken if it is positive, and given back if it is negative. With 0 the step
	// evaluates a cost of 1 and changes nothing.
	Cost int64
	// Calls is the number of calls that are given back. A cost is taken by one call.
	Calls int64
	// Taken is when the cost was taken that is given back.
	Taken time.Time
	// Spared is a mask of limits in shadow mode to which nothing is given back.
	Spared byte
	// Force takes the cost even where it does not fit. It counts as no call.
	Force bool
}

// Take decides about cost at the instant now, and takes it if every enforced limit admits
// it. The limits may differ from call to call. Its only error is ErrCost, as for
// Limiter.Take.
func (m *Model) Take(now time.Time, limits []Limit, cost int64) (Decision, error) {
	if err := checkCost(cost, limits); err != nil {
		return Decision{}, err
	}
	return m.Step(Step{Now: now, Limits: limits, Cost: cost}), nil
}

// Peek returns the Decision of a Take of cost 1, but takes nothing.
func (m *Model) Peek(now time.Time, limits []Limit) Decision {
	return m.Step(Step{Now: now, Limits: limits})
}

// Refund gives back cost, and calls, that were taken at the instant taken. It returns the
// Decision of a Peek, with Unreturned. See Limiter.Refund and Step.Spared.
func (m *Model) Refund(now time.Time, limits []Limit, cost, calls int64, taken time.Time,
	spared byte) Decision {
	return m.Step(Step{Now: now, Limits: limits, Cost: -cost, Calls: calls, Taken: taken, Spared: spared})
}

// step is a Step in progress.
type step struct {
	Step
	now      int64 // microseconds
	take     int64 // cost to evaluate
	sections []section
	of       []int      // index of each limit's section
	parts    []part     // of each section
	others   []part     // parts that no section names
	stored   []part     // all parts before the step
	windows  [][2]int64 // of each counter and fixed window: start and end
	recorded []bool     // the part has recorded the cost
	changed  bool       // the state must be written even if the call is denied
	rewrite  bool       // the state must be rewritten: its layout changes
}

// Step makes a step. A denied step changes the model only if a limit counts denied calls,
// the list of limits has changed or the clock stepped back.
func (m *Model) Step(in Step) Decision {
	s := &step{Step: in, now: in.Now.UnixMicro(), take: max(1, in.Cost), stored: m.parts}
	s.open()
	if in.Cost < 0 {
		unreturned := s.giveBack()
		d := s.usage(1)
		d.Unreturned = unreturned
		s.store(m)
		return d
	}
	d := s.usage(s.take)
	if in.Cost == 0 {
		return d
	}
	recorded := false
	exceeded := Exceeded(d.Limits)
	for i, sec := range s.sections {
		beyond := sec.shadow && exceeded&(1<<slices.Index(s.of, i)) != 0
		if s.Force || sec.kind == attemptsKind || d.Allowed && !beyond {
			s.recorded[i] = s.record(i)
			recorded = recorded || s.recorded[i]
		}
	}
	if recorded {
		after := s.usage(s.take)
		after.Allowed = d.Allowed
		if d.Allowed {
			for i := range after.Limits {
				after.Limits[i].RetryAfter = d.Limits[i].RetryAfter
			}
		}
		d = after
	}
	if recorded || s.changed {
		s.store(m)
	}
	return d
}

// open finds or makes the part of each section, and advances it to the time of the step.
func (s *step) open() {
	s.sections, s.of = sectionsOf(s.Limits, s.Counted)
	s.parts = make([]part, len(s.sections))
	s.windows = make([][2]int64, len(s.sections))
	s.recorded = make([]bool, len(s.sections))
	named := make([]bool, len(s.stored))
	for i, sec := range s.sections {
		if sec.kind == counterKind || sec.kind == fixedKind {
			s.windows[i][0], s.windows[i][1] = sec.period(s.now)
		}
		j := slices.IndexFunc(s.stored, func(p part) bool { return p.sectionID == sec.sectionID })
		if j < 0 {
			s.parts[i] = s.newPart(sec, s.windows[i][0])
			s.changed, s.rewrite = s.changed || len(s.stored) > 0, true
			continue
		}
		named[j] = true
		s.parts[i] = s.stored[j]
		if sec.kind.isLog() {
			s.openLog(&s.parts[i], sec)
		} else {
			s.changed = s.parts[i].advance(s.now, s.windows[i][0]) || s.changed
		}
	}
	for j, p := range s.stored {
		if !named[j] {
			s.others = append(s.others, p)
		}
	}
}

// newPart returns the part of a section that the state lacks.
func (s *step) newPart(sec section, start int64) part {
	p := part{sectionID: sec.sectionID, start: start}
	if sec.kind.isLog() {
		p.emptyLog(sec)
	}
	if !slices.ContainsFunc(s.stored, func(p part) bool { return p.expires() > s.now }) {
		return p // the subject made no calls that could count
	}
	p.since = seconds(s.now)
	if sec.kind.isLog() {
		if source := s.source(sec); source != nil {
			p.copyFrom(source, s.now)
		}
	}
	s.seed(&p, sec)
	return p
}

// source returns the log with the longest window that knows calls a new log counts: one
// of the same kind, otherwise one of the other, and of the same mode if there is one.
func (s *step) source(sec section) (found *part) {
	best := int64(-1)
	for i := range s.stored {
		p := &s.stored[i]
		if !p.kind.isLog() || p.calls != sec.calls || p.sectionID == sec.sectionID || p.dead(s.now) {
			continue
		}
		rank := p.span
		if p.kind == sec.kind {
			rank += 1 << 50
		}
		if !p.shadow {
			rank += 1 << 51
		}
		if rank > best {
			found, best = p, rank
		}
	}
	return found
}

// seed adds to a new part the calls that only other parts know, as if they were made now.
func (s *step) seed(p *part, sec section) {
	count := s.known(p, sec)
	switch {
	case sec.kind == bucketKind:
		p.setDebt(s.now, debtOf(count, sec.span, sec.requests))
	case !sec.kind.isLog():
		p.cur = max(p.cur, count)
	default:
		if more := count - p.callsAfter(0); more > 0 {
			p.push(s.now+p.offset, more)
		}
	}
}

// known returns the number of calls in the window of a section's part that other parts know:
// the largest count of those whose window lies in its own.
func (s *step) known(p *part, sec section) (count int64) {
	for i := range s.stored {
		if from := s.stored[i]; from.calls == sec.calls && from.sectionID != p.sectionID {
			count = max(count, from.known(s.now, p, sec.span))
		}
	}
	return min(count, sec.requests)
}

// known returns a number of calls that p has counted, all of them in the present window of
// the part target, whose length is window.
func (p *part) known(now int64, target *part, window int64) int64 {
	after, aligned := now-window, false // the calls are later than this time
	if target.kind == counterKind || target.kind == fixedKind {
		after, aligned = target.start-1, true
	}
	switch p.kind {
	case bucketKind: // its debt is of calls in its window
		if now-p.window >= after {
			return p.debt(now).calls(p.group, p.window)
		}
	case fixedKind:
		if p.start > after && now-p.start < p.length() {
			return p.cur
		}
	case counterKind:
		p.roll(now)
		switch {
		case !aligned && p.window <= window:
			return p.estimate(now)
		case p.start > after:
			return p.cur
		}
	default:
		if !target.kind.isLog() && !p.dead(now) { // a new log copies the longest one
			return p.callsAfter(p.clock(now) - min(now-after, p.span))
		}
	}
	return 0
}

// store replaces the model's parts by those of the step. A rewrite encodes logs anew and
// drops parts that have expired.
func (s *step) store(m *Model) {
	others := s.others
	if s.rewrite {
		for i := range s.parts {
			if p := &s.parts[i]; p.kind.isLog() {
				p.encode(s)
			}
		}
		others = nil
		for _, p := range s.others {
			if p.expires() > s.now {
				others = append(others, p)
			}
		}
		for len(s.parts)+len(others) > maxParts {
			first := 0
			for i := range others {
				if others[i].expires() < others[first].expires() {
					first = i
				}
			}
			others = slices.Delete(others, first, first+1)
		}
		m.parts = slices.Concat(s.parts, others)
		return
	}
	// In place: each part stays where it is.
	m.parts = slices.Clone(s.stored)
	for i := range m.parts {
		for j, p := range s.parts {
			if p.sectionID == m.parts[i].sectionID && (s.recorded[j] || s.changed) &&
				(!p.kind.isLog() || len(p.slots) > 0) {
				m.parts[i] = p
			}
		}
	}
}

// expires returns the time from which a part counts nothing, if it is not used.
func (p *part) expires() int64 {
	switch p.kind {
	case bucketKind:
		return p.whole + 1
	case counterKind:
		return p.start + 2*p.window
	case fixedKind:
		return p.start + p.length()
	default:
		return p.base - p.offset + 2*p.span
	}
}

// length returns the greatest length of a fixed window.
func (p *part) length() int64 {
	if p.group != 0 {
		return Calendar(p.group).Longest().Microseconds()
	}
	return p.window
}

// advance advances a part that is not a log to the time now. start is that of the present
// window. It reports whether the part must therefore be stored, because the clock stepped
// back.
func (p *part) advance(now, start int64) (moved bool) {
	switch p.kind {
	case counterKind:
		return p.roll(now)
	case bucketKind:
		// A longer debt is from before the clock stepped back.
		if d := p.debt(now); d.compare(debt{whole: 2 * p.window}) > 0 {
			p.setDebt(now, debt{whole: 2 * p.window})
			return true
		}
		return false
	default:
		moved = start < p.start
		if start > p.start {
			p.cur = 0
		}
		p.start = start
		return moved
	}
}

// maxCount is the largest count of a counter or fixed window, which a settlement and the
// calls under an override can raise above the limit.
const maxCount = 2 * MaxRequests

// record adds the step's cost to section i. It reports false if the section does not count
// it.
func (s *step) record(i int) bool {
	sec, p, cost := s.sections[i], &s.parts[i], s.Cost
	if sec.calls {
		if s.Force {
			return false
		}
		cost = 1
	}
	switch {
	case sec.kind.isLog():
		s.admit(p, sec, cost)
	case sec.kind == bucketKind:
		d := p.debtWith(s.now, cost)
		p.setDebt(s.now, least(d, debt{whole: 2 * p.window}))
	default:
		p.cur = min(p.cur+cost, maxCount)
	}
	return true
}

// usage evaluates every limit for a cost.
func (s *step) usage(cost int64) Decision {
	d := Decision{Allowed: true, Now: time.UnixMicro(s.now).UTC(), Limits: make([]Usage, len(s.Limits))}
	for i, l := range s.Limits {
		p := &s.parts[s.of[i]]
		cost := cost
		if l.Calls {
			cost = 1
		}
		left, reset, retry := s.usageOf(i, min(cost, l.Requests))
		if cost > l.Requests { // possible in shadow mode only
			retry = MaxWindow.Microseconds()
		}
		u := Usage{Limit: l, Remaining: max(0, left), Reset: micros(reset), RetryAfter: micros(retry)}
		if !l.CountDenied {
			u.Owed = min(max(0, -left), l.Requests)
		}
		if more := u.Remaining + 1; more <= l.Requests {
			_, _, next := s.usageOf(i, more)
			u.Next = micros(next)
		}
		if p.since > (s.now-s.elapsed(i))/1_000_000 {
			u.Since = time.Unix(p.since, 0).UTC()
		}
		d.Limits[i] = u
		d.Allowed = d.Allowed && (l.Shadow || u.RetryAfter == 0)
	}
	return d
}

// elapsed returns how long the present window of limit i has lasted.
func (s *step) elapsed(i int) int64 {
	if w := s.windows[s.of[i]]; w[1] != 0 {
		return s.now - w[0]
	}
	return s.Limits[i].Window.Microseconds()
}

// usageOf evaluates limit i for a cost. left is the remaining cost, which is negative if
// more than the limit is taken. reset and retry are the microseconds until the window is
// empty and until the cost passes.
func (s *step) usageOf(i int, cost int64) (left, reset, retry int64) {
	l, p := s.Limits[i], &s.parts[s.of[i]]
	switch p.kind {
	case counterKind:
		return p.counterUsage(s.now, l.Requests, cost)
	case bucketKind:
		return p.bucketUsage(s.now, cost)
	case fixedKind:
		ends := s.windows[s.of[i]][1]
		left = l.Requests - p.cur
		if p.cur > 0 {
			reset = ends - s.now
		}
		if cost > left {
			retry = ends - s.now
		}
		return left, reset, retry
	default:
		return p.logUsage(p.clock(s.now), l.Window.Microseconds(), l.Requests, cost)
	}
}

// micros converts microseconds to a Duration; 0 if they are negative.
func micros(us int64) time.Duration { return time.Duration(max(0, us)) * time.Microsecond }

// seconds converts a time in microseconds to seconds, rounded up.
func seconds(us int64) int64 { return (us + 999_999) / 1_000_000 }

// giveBack gives the step's cost and calls back to every section. It returns the largest
// part of a cost that a section may still count.
func (s *step) giveBack() (unreturned int64) {
	s.rewrite = true
	for i, sec := range s.sections {
		if sec.shadow && s.Spared&(1<<slices.Index(s.of, i)) != 0 {
			continue
		}
		r := refund{now: s.now, cost: -s.Cost, taken: s.Taken.UnixMicro(), ends: s.windows[i][1]}
		if sec.calls {
			r.cost = s.Calls
		}
		if r.cost > 0 {
			unreturned = max(unreturned, s.parts[i].refund(r))
		}
	}
	return unreturned
}

// refund is what a part gives back. Times are microseconds on the server's clock.
type refund struct {
	now, cost int64
	taken     int64 // when the cost was taken
	ends      int64 // end of the present window of a fixed window
}

// refund gives back a cost. It returns the part of the cost that p may still count
// afterwards. For a call that has left the window it gives nothing back and returns 0,
// because p no longer counts the call.
func (p *part) refund(r refund) (unreturned int64) {
	switch p.kind {
	case counterKind:
		switch {
		case r.taken >= p.start+p.window: // the clock stepped back: the call's window is unknown
			return min(r.cost, p.cur+p.prev)
		case r.taken >= p.start:
			p.cur -= min(p.cur, r.cost)
		case r.taken >= p.start-p.window:
			p.prev -= min(p.prev, r.cost)
		}
		return 0
	case fixedKind:
		if r.taken >= r.ends {
			return min(r.cost, p.cur)
		}
		if r.taken >= p.start {
			p.cur -= min(p.cur, r.cost)
		}
		return 0
	case bucketKind:
		return p.refundBucket(r)
	default:
		return p.refundLog(r)
	}
}
