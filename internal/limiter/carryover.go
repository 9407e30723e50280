package limiter

import "slices"

// rebuild moves the history into other sections, on the strict side. A section that stays
// as it is keeps its state. A log takes over the slots of the log with the longest
// window, as far back as both windows reach and at most DefaultSlots or its limit. What
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
		if j := slices.IndexFunc(old.sections, sec.same); j >= 0 {
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

// calls returns what a section that is no log counts now.
func (h *past) calls(i int) int64 {
	sec, st := h.sections[i], &h.states[i]
	switch sec.kind {
	case counterKind:
		return st.estimate(sec.span, h.now)
	case fixedKind:
		return st.cur
	case bucketKind:
		whole, part := st.debt(h.now)
		return owedCalls(whole, part, max(1, st.requests), sec.span)
	default:
		return 0
	}
}

// longestLog returns the index of the log of a kind with the longest window, or -1.
func (h *past) longestLog(k kind) int {
	found := -1
	for i, s := range h.sections {
		if s.kind == k && (found < 0 || s.span > h.sections[found].span) {
			found = i
		}
	}
	return found
}

// source returns the log to take over from, preferring one of the same kind, or -1.
func (h *past) source(k kind) int {
	first, second := logKind, attemptsKind
	if k == attemptsKind {
		first, second = second, first
	}
	if i := h.longestLog(first); i >= 0 {
		return i
	}
	return h.longestLog(second)
}

// carried returns the state of a new section.
func (h *past) carried(sec section, requests int64, shifts []shift) state {
	source := h.source(sec.kind)
	if sec.kind.isLog() {
		return h.carriedLog(sec, source, requests)
	}
	start, _ := sec.start(h.now, shifts)
	reach := sec.span - 1 // how old a call may be to count
	if sec.kind == fixedKind {
		reach = h.now - start
	}
	count := h.count
	if source >= 0 {
		from := &h.states[source]
		count = from.since(h.sections[source].group, h.now+from.offset-min(reach+1, h.sections[source].span))
	}
	if sec.kind == bucketKind {
		if count == 0 {
			return state{}
		}
		whole, part := muldiv(min(count, requests), sec.span, requests)
		return state{whole: h.now + whole, part: part, requests: requests}
	}
	return state{start: start, cur: count}
}

// start returns where the window of a counter or fixed window that holds now starts.
func (s section) start(now int64, shifts []shift) (start, end int64) {
	if s.kind == bucketKind {
		return 0, 0
	}
	return s.period(now, shifts)
}

func (h *past) carriedLog(sec section, source int, requests int64) state {
	var st state
	if source < 0 {
		st.push(sec.group, h.now, min(h.count, requests))
		return st
	}
	from, old := &h.states[source], h.sections[source]
	st.offset = from.offset
	after := h.now + from.offset - min(sec.span, old.span)
	calls := func(i int) int64 {
		switch {
		case i == len(from.slots)-1:
			return from.fill
		case i > 0 && from.slots[i-1] == from.slots[i]:
			return old.group
		}
		return old.group - (from.missing(from.slots[i]-1) - from.missing(from.slots[i]))
	}
	// A slot may have stood for many calls, and each may need one of its own now: that is
	// bounded, the oldest go.
	most := max(requests, DefaultSlots*sec.group)
	first, total := len(from.slots), int64(0)
	for first > 0 && from.slots[first-1] > after && total < most {
		first--
		total += calls(first)
	}
	for i := first; i < len(from.slots); i++ {
		count := calls(i)
		if i == first {
			count -= max(0, total-most)
		}
		st.push(sec.group, from.slots[i], count)
	}
	return st
}
