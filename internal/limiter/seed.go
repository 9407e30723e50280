package limiter

import "slices"

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
// the largest count of those whose window lies in its own, or is the same week, month or
// year of another zone.
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
		if p.sharesCalendar(target) {
			after -= zonesApart
		}
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

// zonesApart is the most that the same week, month or year begins earlier in one time zone
// than in another.
const zonesApart = 26 * 3600 * 1_000_000

// sharesCalendar reports whether two parts are of the same weeks, months or years, in
// different time zones.
func (p *part) sharesCalendar(other *part) bool {
	return other.kind == fixedKind && p.group == other.group && Calendar(p.group) > Day
}
