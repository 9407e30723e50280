package limiter

import (
	"slices"
	"time"
)

// Model is the limiter without I/O: the state of one subject, and the step of the script
// in Go. The scripts are its translation, and tests compare them. Package decide uses it
// while Valkey is unavailable. The zero value is a subject
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
//	   3 number of slots to keep
//	   4 time of the latest slot that it dropped while that counted (seconds since 1970;
//	     0 for none)
//	   7 base: time of the newest slot at the last rewrite
//	   7 offset: how far its clock is ahead of a server's clock that stepped back
//	   3 room (slots)
//	   1 number of deficits
//	   4 time since when no program has named the window (seconds since 1970; 0 for none)
//	   3 used slots
//	   3 calls of the newest slot
//	for each other part an entry of 30 bytes:
//	  11 identity: 1 kind, 4 calendar of a fixed window or limit of a token bucket,
//	     6 window, or a hash of a calendar's time zone
//	   4 time since when it counts every call, as above
//	   7 start of the window; of a token bucket: when it is full
//	   4 previous count; of a token bucket: when it is full, parts of a microsecond
//	   4 count; of a token bucket: the calls that it dropped since it was full
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
	dropped  int64     // time of the latest slot dropped while it counted (seconds); 0 for none
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
	excess      int64 // calls that it dropped since it was full, because it owed too much
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

// store replaces the model's parts by those of the step. A rewrite encodes logs anew and
// drops parts that have expired.
func (s *step) store(m *Model) {
	if s.rewrite {
		for i := range s.parts {
			if p := &s.parts[i]; p.kind.isLog() {
				p.encode(s)
			}
		}
		var others []part
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
		p.charge(s.now, cost)
	default:
		p.cur = min(p.cur+cost, maxCount)
	}
	return true
}

// micros converts microseconds to a Duration; 0 if they are negative.
func micros(us int64) time.Duration { return time.Duration(max(0, us)) * time.Microsecond }

// seconds converts a time in microseconds to seconds, rounded up.
func seconds(us int64) int64 { return (us + 999_999) / 1_000_000 }
