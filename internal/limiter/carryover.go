package limiter

import (
	"slices"

	"tidegate/internal/limiter/calendar"
)

// rebuild moves the history into other sections, on the strict side. A section that stays
// as it is keeps its state, and what is no log keeps it in another mode too. A log takes
// over the slots of the log with the longest window, as far back as both windows reach
// and at most DefaultSlots or its limit; a log in shadow mode adds what is older. What
// has no log to take from starts with the largest count that any old section has, as if
// all of it were admitted now, at most its limit.
func (m *Model) rebuild(s *step, sections []section) {
	old := past{sections: m.sections, states: slices.Clone(m.states), now: s.now}
	for i := range old.states {
		st := &old.states[i]
		// the zone of a calendar that goes is no longer known: its count stands
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

// past is an old state to carry over.
type past struct {
	sections []section
	states   []state
	now      int64
	count    int64 // the largest count of the sections that are no logs
}

// find returns the index of the section whose state the i-th one keeps, at its old place
// if it is there, or -1.
func (p *past) find(i int, sec section) int {
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

// calls returns what a section that is no log counts now.
func (p *past) calls(i int) int64 {
	sec, st := p.sections[i], &p.states[i]
	switch sec.kind {
	case counterKind:
		return st.estimate(sec.span, p.now)
	case fixedKind:
		return st.cur
	case bucketKind:
		whole, part := st.debt(p.now)
		return owedCalls(whole, part, max(1, st.requests), sec.span)
	default:
		return 0
	}
}

// longestLog returns the index of the log of a kind and mode with the longest window, or
// -1.
func (p *past) longestLog(k kind, shadow bool) int {
	found := -1
	for i, s := range p.sections {
		if s.kind == k && s.shadow == shadow && (found < 0 || s.span > p.sections[found].span) {
			found = i
		}
	}
	return found
}

// source returns the log of a mode to take over from, preferring one of the same kind, or
// -1.
func (p *past) source(k kind, shadow bool) int {
	first, second := logKind, attemptsKind
	if k == attemptsKind {
		first, second = second, first
	}
	if i := p.longestLog(first, shadow); i >= 0 {
		return i
	}
	return p.longestLog(second, shadow)
}

// carried returns the state of a new section.
func (p *past) carried(sec section, requests int64, shifts []calendar.Shift) state {
	source, older := p.source(sec.kind, false), p.source(sec.kind, true)
	if source < 0 {
		source, older = older, -1
	}
	if sec.kind.isLog() {
		return p.carriedLog(sec, source, older, requests)
	}
	start, _ := sec.start(p.now, shifts)
	reach := sec.span - 1 // how old a call may be to count
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
		whole, part := muldiv(min(count, requests), sec.span, requests)
		return state{whole: p.now + whole, part: part, requests: requests}
	}
	return state{start: start, cur: count}
}

// start returns where the window of a counter or fixed window that holds now starts.
func (s section) start(now int64, shifts []calendar.Shift) (start, end int64) {
	if s.kind == bucketKind {
		return 0, 0
	}
	return s.period(now, shifts)
}

// carriedLog takes over the slots of a log, and of a log in shadow mode what is older
// than the window of the first; older is -1 without. A log in shadow mode lacks the calls
// that exceeded it.
func (p *past) carriedLog(sec section, source, older int, requests int64) state {
	var st state
	if source < 0 {
		st.push(sec.group, p.now, min(p.count, requests))
		return st
	}
	st.offset = p.states[source].offset
	// A slot may have stood for many calls, and each may need one of its own now: that is
	// bounded, the oldest go.
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

// entry is what one slot of a log stands for.
type entry struct{ at, calls int64 }

// entries lists the slots of a log that are younger than an age and not younger than
// another, 0 for all, oldest first, and the calls in them: the latest ones, as many as
// most.
func (p *past) entries(log int, younger, least, most int64) (entries []entry, total int64) {
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

// callsIn returns the calls that slot i of a log stands for. The first slot with a stamp
// bears its deficit.
func (st *state) callsIn(group int64, i int) int64 {
	switch {
	case i == len(st.slots)-1:
		return st.fill
	case i > 0 && st.slots[i-1] == st.slots[i]:
		return group
	}
	return group - (st.missing(st.slots[i]-1) - st.missing(st.slots[i]))
}
