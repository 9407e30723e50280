package limiter

import (
	"slices"

	"tidegate/internal/limiter/calendar"
)

// rebuild carries the state over to other sections after an edit of the limits. If the
// old state lacks information, it counts too much and never too little:
//
//   - An unchanged section keeps its state. A section that is not a log keeps it in
//     another mode too.
//   - A log takes the slots of the log with the longest window: those within both windows,
//     at most DefaultSlots or its limit. A log in shadow mode adds older slots.
//   - If the old state has no log, a section starts with the largest count of all old
//     sections, at most its limit, as if all of it were admitted now.
func (m *Model) rebuild(s *step, sections []section) {
	old := oldState{sections: m.sections, states: slices.Clone(m.states), now: s.now}
	for i := range old.states {
		st := &old.states[i]
		// The zone of an old calendar is unknown, so its count does not change.
		if old.sections[i].calendar == NoCalendar {
			st.advance(old.sections[i], s.now, st.requests, nil)
		}
		old.count = max(old.count, old.calls(i))
	}
	states := make([]state, len(sections))
	for i, sec := range sections {
		if j := old.find(i, sec); j >= 0 {
			states[i] = old.states[j]
		} else {
			states[i] = old.carried(sec, s.requests(i), s.shifts[i])
		}
	}
	m.states = states
}

// oldState is a state to carry over.
type oldState struct {
	sections []section
	states   []state
	now      int64
	count    int64 // largest count of the sections that are not logs
}

// find returns the index of the old section whose state the new section i keeps, or -1.
// It prefers the old section i. A section that is not a log also keeps its state from the
// other mode.
func (p *oldState) find(i int, sec section) int {
	other := sec
	other.shadow = !sec.shadow
	for _, wanted := range []section{sec, other} {
		if i < len(p.sections) && wanted.same(p.sections[i]) {
			return i
		}
		if j := slices.IndexFunc(p.sections, wanted.same); j >= 0 {
			return j
		}
		if sec.kind.isLog() {
			break
		}
	}
	return -1
}

// calls returns the count of an old section that is not a log; 0 for a log.
func (p *oldState) calls(i int) int64 {
	sec, st := p.sections[i], &p.states[i]
	switch sec.kind {
	case counterKind:
		return st.estimate(sec.span, p.now)
	case fixedKind:
		return st.cur
	case bucketKind:
		return st.debt(p.now).calls(max(1, st.requests), sec.span)
	default:
		return 0
	}
}

// source returns the index of the old log in a mode whose slots a new section takes, or
// -1. If attempts is set, it prefers a log that counts denied calls, otherwise one that
// does not. Of several it returns the log with the longest window.
func (p *oldState) source(attempts, shadow bool) int {
	found := -1
	for _, ofAttempts := range []bool{attempts, !attempts} {
		for i, s := range p.sections {
			if s.kind.isLog() && (s.kind == attemptsKind) == ofAttempts && s.shadow == shadow &&
				(found < 0 || s.span > p.sections[found].span) {
				found = i
			}
		}
		if found >= 0 {
			break
		}
	}
	return found
}

// carried returns the state of a new section, made from the old state.
func (p *oldState) carried(sec section, requests int64, shifts []calendar.Shift) state {
	attempts := sec.kind == attemptsKind
	source, older := p.source(attempts, false), p.source(attempts, true)
	if source < 0 {
		source, older = older, -1
	}
	if sec.kind.isLog() {
		return p.carriedLog(sec, source, older, requests)
	}
	var start int64
	if sec.kind != bucketKind {
		start, _ = sec.period(p.now, shifts)
	}
	reach := sec.span - 1 // greatest age of a call that counts
	if sec.kind == fixedKind {
		reach = p.now - start
	}
	count := p.count
	if source >= 0 {
		from := &p.states[source]
		count = from.since(p.sections[source].group, p.now+from.offset-min(reach+1, p.sections[source].span))
	}
	if sec.kind == bucketKind {
		if count == 0 {
			return state{}
		}
		var st state
		st.setDebt(p.now, debtOf(min(count, requests), sec.span, requests), requests)
		return st
	}
	return state{start: start, cur: count}
}

// carriedLog returns a log with the slots of the old log source. From the old log older,
// which is in shadow mode and may be -1, it adds slots that are older than the source's
// window. A log in shadow mode lacks the calls that exceeded it, so an enforced source is
// preferred.
func (p *oldState) carriedLog(sec section, source, older int, requests int64) state {
	var st state
	if source < 0 {
		st.push(sec.group, p.now, min(p.count, requests))
		return st
	}
	st.offset = p.states[source].offset
	// A slot may stand for many calls that each need a slot now. Their number is bounded:
	// the oldest are dropped.
	most := max(requests, DefaultSlots*sec.group)
	span := p.sections[source].span
	entries, total := p.entries(source, min(sec.span, span), 0, most)
	if older >= 0 && p.sections[older].span > span && sec.span > span && total < most {
		before, _ := p.entries(older, min(sec.span, p.sections[older].span), span, most-total)
		for i := range before {
			before[i].at += st.offset - p.states[older].offset
		}
		entries = append(before, entries...)
	}
	for _, e := range entries {
		st.push(sec.group, e.at, e.calls)
	}
	return st
}

// entry is the time and the calls of one slot of a log.
type entry struct{ at, calls int64 }

// entries returns slots of an old log, oldest first, and the number of calls in them. The
// slots' age is below younger and, unless least is 0, at least least (microseconds). If
// they have more than most calls, entries returns the latest ones.
func (p *oldState) entries(log int, younger, least, most int64) (entries []entry, total int64) {
	from, group := &p.states[log], p.sections[log].group
	clock := p.now + from.offset
	last := len(from.slots)
	for last > 0 && least > 0 && from.slots[last-1] > clock-least {
		last--
	}
	first := last
	for first > 0 && from.slots[first-1] > clock-younger && total < most {
		first--
		total += from.callsIn(group, first)
	}
	for i := first; i < last; i++ {
		calls := from.callsIn(group, i)
		if i == first {
			calls -= max(0, total-most)
		}
		entries = append(entries, entry{from.slots[i], calls})
	}
	return entries, min(total, most)
}

// callsIn returns the calls that slot i of a log stands for. Of several slots with the
// same time, the first one has the deficit.
func (st *state) callsIn(group int64, i int) int64 {
	switch {
	case i == len(st.slots)-1:
		return st.fill
	case i > 0 && st.slots[i-1] == st.slots[i]:
		return group
	}
	return group - (st.missing(st.slots[i]-1) - st.missing(st.slots[i]))
}
