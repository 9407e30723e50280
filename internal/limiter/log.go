package limiter

import (
	"slices"
	"sort"
)

// clock returns a log's time now. It is never before the newest slot, nor before base.
func (p *part) clock(now int64) int64 {
	if n := len(p.slots); n > 0 {
		return max(now+p.offset, p.base, p.slots[n-1])
	}
	return now + p.offset
}

// dead reports whether all slots of a log have left its longest window.
func (p *part) dead(now int64) bool {
	n := len(p.slots)
	return n == 0 || p.clock(now)-p.slots[n-1] >= p.span
}

// low returns the index of the first slot that counts.
func (p *part) low() int { return max(0, len(p.slots)-int(p.keep)) }

// emptyLog makes p an empty log for a section.
func (p *part) emptyLog(sec section) {
	*p = part{sectionID: sec.sectionID, since: p.since, span: sec.span, keep: sec.keep, width: sec.width()}
}

// openLog brings a log up to date, and lets it grow to what a section needs.
func (s *step) openLog(p *part, sec section) {
	if at := p.clock(s.now); at > s.now+p.offset { // the clock stepped back
		p.offset = at - s.now
		s.changed = true
	}
	short, longer := p.span, sec.span > p.span
	if p.dead(s.now) {
		offset := p.offset // a refund may still come for a call before the clock stepped back
		if p.clock(s.now)-p.base >= 2*p.span {
			offset = 0
		}
		p.since = 0
		p.emptyLog(sec)
		p.offset = offset
		if !longer {
			return
		}
	}
	if !longer && sec.keep <= p.keep {
		return
	}
	s.changed, s.rewrite = true, true
	p.trim(p.clock(s.now) - short)
	old := *p
	if sec.width() > p.width {
		p.emptyLog(sec)
		p.keep = max(old.keep, sec.keep)
		p.copyFrom(&old, s.now)
	}
	p.span, p.keep, p.idle = max(old.span, sec.span), max(old.keep, sec.keep), 0
	if longer {
		p.since = max(p.since, seconds(s.now-short))
		s.lengthen(p, sec, short)
	}
}

// lengthen puts before the slots of a log, whose window was short, the calls from before that
// window: those of another log, and those that only other parts know.
func (s *step) lengthen(p *part, sec section, short int64) {
	before, at := part{sectionID: p.sectionID, keep: p.keep}, p.clock(s.now)
	if source := s.source(sec); source != nil {
		now := source.clock(s.now)
		before.copyLumps(source, now-min(p.span, source.span), now-short, at-now)
	}
	if more := s.known(p, sec) - before.callsAfter(0) - p.callsAfter(0); more > 0 {
		before.push(at-short, more)
	}
	if len(p.slots) == 0 {
		p.fill = before.fill
	}
	p.slots = slices.Concat(before.slots, p.slots)
}

// lost returns the time (seconds since 1970) of the latest slot that does not count
// because newer ones fill the log, although it may be in a window; 0 for none.
func (p *part) lost() int64 {
	if low := p.low(); low > 0 {
		return seconds(p.slots[low-1])
	}
	return p.dropped
}

// copyFrom fills an empty log with the calls of another log, in lumps: the calls of a lump
// count until the latest of them leaves the window. It ignores deficits.
func (p *part) copyFrom(from *part, now int64) {
	at := from.clock(now)
	p.offset, p.dropped = at-now, from.lost()
	p.copyLumps(from, at-min(p.span, from.span), at, 0)
}

// copyLumps pushes the calls of another log's slots that are later than after, up to the time
// until, shifted by a time.
func (p *part) copyLumps(from *part, after, until, shift int64) {
	first, end := max(from.low(), from.firstAfter(after)), from.firstAfter(until)
	size := (end - first + seeds - 1) / seeds
	if size > 0 { // of older lumps, no slot would count
		calls := int64(size) * from.group
		enough := int((p.group*(p.keep+1)+calls-1)/calls) + 1
		first += max(0, end-first-enough*size) / size * size
	}
	for begin := first; begin < end; begin += size {
		finish := min(begin+size, end)
		calls := int64(finish-begin) * from.group
		if finish == len(from.slots) {
			calls += from.fill - from.group
		}
		p.push(from.slots[finish-1]+shift, min(calls, (p.keep+1)*p.group))
	}
}

// push records cost at the time at: in the newest slot, whose time becomes at, until it is
// full, then in new slots.
func (p *part) push(at, cost int64) {
	if n := len(p.slots); n > 0 && p.fill < p.group {
		added := min(cost, p.group-p.fill)
		p.slots = append(slices.Clone(p.slots[:n-1]), at)
		p.fill += added
		cost -= added
	}
	for cost > 0 {
		p.slots = append(p.slots, at)
		p.fill = min(cost, p.group)
		cost -= p.fill
	}
}

// admit pushes cost. It shortens the log's window if no program has named that for its
// length, and decides whether the state must be rewritten.
func (s *step) admit(p *part, sec section, cost int64) {
	at := s.now + p.offset
	switch {
	case sec.span >= p.span:
		p.idle = 0
	case p.idle == 0:
		p.idle = seconds(s.now)
	case s.now-p.idle*1_000_000 >= p.span:
		p.span, p.idle, s.rewrite = sec.span, 0, true
	}
	if len(p.slots) == 0 {
		s.rewrite = true
	}
	p.push(at, min(cost, (p.keep+1)*p.group)) // more would be dropped at once
	if age := at - p.base; int64(len(p.slots)) > p.room || age >= p.span || age <= -p.span {
		s.rewrite = true
	}
}

// encode does what a rewrite of the state does to a log: it drops slots that no longer
// count, and leaves room for more.
func (p *part) encode(s *step) {
	p.base = s.now + p.offset
	if n := len(p.slots); n > 0 && (s.Cost >= 0 || p.kind == attemptsKind) {
		p.base = p.slots[n-1] // a refund may have removed the newest slot
	}
	p.trim(p.base - p.span)
	count, most := int64(len(p.slots)), int64(0)
	for _, sec := range s.sections {
		if sec.sectionID == p.sectionID {
			most = max(count, sec.slots())
		}
	}
	p.room = 3
	if count > 1 {
		p.room = max(count, min(count*3/2+8, most*11/10+1))
	}
}

// trim drops the slots up to the time t and those that do not count, and their deficits.
func (p *part) trim(t int64) {
	low, first := p.low(), p.firstAfter(t)
	if low > first {
		p.dropped = p.lost()
	}
	p.slots = p.slots[max(low, first):]
	if low > 0 && len(p.slots) > 0 {
		t = max(t, p.slots[0])
	}
	for len(p.deficits) > 0 && p.deficits[0].at <= t {
		p.deficits = p.deficits[1:]
	}
}

// firstAfter returns the index of the first slot later than t.
func (p *part) firstAfter(t int64) int {
	i, _ := slices.BinarySearch(p.slots, t+1)
	return i
}

// callsAfter returns the number of calls in slots later than t.
func (p *part) callsAfter(t int64) int64 {
	slots := int64(len(p.slots) - max(p.low(), p.firstAfter(t)))
	if slots == 0 {
		return 0
	}
	return p.fill + (slots-1)*p.group - p.missing(t)
}

// missing returns the number of calls of the deficits later than t.
func (p *part) missing(t int64) (calls int64) {
	if low := p.low(); low > 0 {
		t = max(t, p.slots[low])
	}
	for _, d := range p.deficits {
		if d.at > t {
			calls += d.calls
		}
	}
	return calls
}

// logUsage evaluates a log for a cost. It returns what usageOf returns.
func (p *part) logUsage(at, window, requests, cost int64) (left, reset, retry int64) {
	used := int64(len(p.slots))
	if used == 0 {
		return requests, 0, 0
	}
	// staying is how many of the newest slots may stay in the window when this cost is
	// added. The slot before them must have left it.
	staying := int64(0)
	if spare := requests - cost - p.fill; spare >= 0 {
		staying = spare/p.group + 1
	}
	deciding := used - staying - 1
	if len(p.deficits) > 0 {
		deciding = p.leaving(requests - cost)
	}
	if deciding >= 0 {
		retry = window - (at - p.slots[deciding])
	}
	return requests - p.callsAfter(at-window), window - (at - p.slots[used-1]), retry
}

// leaving returns the index of the slot that must leave the window so that at most calls
// remain in it; -1 if no slot must leave.
func (p *part) leaving(calls int64) int64 {
	if p.callsAfter(0) <= calls {
		return -1
	}
	low, newest := p.low(), len(p.slots)-1
	i := low + sort.Search(newest-low, func(i int) bool {
		return p.fill+int64(newest-1-low-i)*p.group-p.missing(p.slots[low+i]) <= calls
	})
	return int64(i)
}
