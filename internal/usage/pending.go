package usage

import (
	"time"

	"tidegate/internal/usage/denylog"
	"tidegate/internal/usage/routecount"
	"tidegate/internal/usage/statelist"
)

// What a Recorder holds between flushes.
const (
	MaxSubjects = 1024
	MaxRules    = 64
	// maxUnregistered leaves the other half to registered subjects.
	maxUnregistered = MaxSubjects / 2
	// maxMinutes is how many minutes of totals and rules are kept apart: those of an
	// environment whose store stays away add up.
	maxMinutes = 8
	// maxNotes is how many seconds of a subject's minute are kept apart until they are
	// flushed, allowed and denied calls apart.
	maxNotes = 4
	// maxRefused bounds refusals: of all callers and of known keys, in every minute.
	maxRefused = maxMinutes + 256
)

const (
	secondsPerMinute = int64(time.Minute / time.Second)
	secondsPerHour   = int64(time.Hour / time.Second)
)

// scope says what a count is of.
type scope byte

const (
	total scope = iota
	rule
	subject
	refusals // by cause, in place of kinds; of everything when the id is empty
)

// slot is a minute of something that is counted.
type slot struct {
	scope  scope
	id     string
	minute int64 // since 1970
}

// width is how many field numbers a minute or an hour of the slot's counts has.
func (s slot) width() int64 {
	if s.scope == refusals {
		return causesPerSlot
	}
	return kindsPerSlot
}

// entry is what is counted in a slot.
type entry struct {
	slot
	registered bool
	tally      tally
	notes      [maxNotes]note
	used       int
}

// pending is what waits to be flushed. It is bounded, and takes what is beyond the bound
// into the totals alone.
type pending struct {
	index                                           map[slot]int
	entries                                         []entry
	totals, rules, subjects, unregistered, refusals int
	anonymous                                       int // of refusals

	kindIndex map[denylog.Kind]int // of kinds
	kinds     []pendingKind

	listed map[statelist.Place]int64 // until when, in milliseconds since 1970

	routeIndex map[routecount.Slot]int // of routes
	routes     []routecount.Count      // they leave with other records
}

func newPending(size int) *pending {
	return &pending{index: make(map[slot]int, size), entries: make([]entry, 0, size)}
}

func (p *pending) empty() bool {
	return len(p.entries)+len(p.kinds)+len(p.listed)+len(p.routes) == 0
}

// urgent reports whether more waits than refusals of callers that proved nothing. Those
// leave with other records, so that a flood of them costs no round trip.
func (p *pending) urgent() bool { return len(p.entries)+len(p.kinds)+len(p.listed) > p.anonymous }

// find returns the entry of a slot, a new one if there is room, or nil. It is good until
// the next call of find.
func (p *pending) find(s slot, registered bool) *entry {
	if i, ok := p.index[s]; ok {
		return &p.entries[i]
	}
	if !p.take(s.scope, registered) {
		return nil
	}
	p.index[s] = len(p.entries)
	p.entries = append(p.entries, entry{slot: s, registered: registered})
	return &p.entries[len(p.entries)-1]
}

// take reports whether there is room for one more entry, and counts it.
func (p *pending) take(s scope, registered bool) bool {
	switch {
	case s == total && p.totals < maxMinutes:
		p.totals++
	case s == rule && p.rules < maxMinutes*MaxRules:
		p.rules++
	case s == subject && p.subjects < MaxSubjects && (registered || p.unregistered < maxUnregistered):
		p.subjects++
		if !registered {
			p.unregistered++
		}
	case s == refusals && p.refusals < maxRefused:
		p.refusals++
		if !registered {
			p.anonymous++
		}
	default:
		return false
	}
	return true
}

// total returns the total of a minute.
func (p *pending) total(minute int64) *entry { return p.newest(total, minute) }

// newest returns the entry of a minute, of total or of all refusals. Where there is no
// room for one more minute, it is the newest that there is, so that no call is left out.
func (p *pending) newest(s scope, minute int64) *entry {
	if e := p.find(slot{scope: s, minute: minute}, false); e != nil {
		return e
	}
	var newest *entry
	for i := range p.entries {
		e := &p.entries[i]
		if e.scope == s && e.id == "" && (newest == nil || e.minute > newest.minute) {
			newest = e
		}
	}
	return newest
}

func (p *pending) record(o Outcome) {
	seconds, cost := max(o.Time.Unix(), 0), max(o.Cost, 1)
	minute := seconds / secondsPerMinute
	if o.Denial != nil && o.Denial.Cause.Refuses() {
		p.refuse(o, minute)
		return
	}
	p.total(minute).tally.add(o.Verdict, cost)
	p.listDenied(o)
	p.route(o)
	for _, id := range o.Rules {
		if !validID(id) {
			continue
		}
		if e := p.find(slot{rule, id, minute}, true); e != nil {
			e.tally.add(o.Verdict, cost)
		}
	}
	if o.Verdict&Denied != 0 {
		p.log(o, minute)
	}
	var e *entry
	if validID(o.Subject) {
		e = p.find(slot{subject, o.Subject, minute}, o.Registered)
	}
	if e == nil {
		p.total(minute).tally[unlisted]++
		return
	}
	e.tally.add(o.Verdict, cost)
	e.note(note{second: int(seconds % secondsPerHour), denied: o.Verdict&Denied != 0, calls: 1,
		extra: cost - 1})
}

// note keeps the calls of a second. Beyond maxNotes they go to the last note of the same
// outcome, or to none: the counts have them all the same.
func (e *entry) note(n note) {
	same := -1
	for i := range e.used {
		if e.notes[i].denied != n.denied {
			continue
		}
		same = i
		if e.notes[i].second == n.second {
			break
		}
	}
	switch {
	case same >= 0 && (e.notes[same].second == n.second || e.used == maxNotes):
		e.notes[same].calls += n.calls
		e.notes[same].extra += n.extra
	case e.used < maxNotes:
		e.notes[e.used] = n
		e.used++
	}
}

// takeBack adds what a flush did not store.
func (p *pending) takeBack(from *entry) {
	if from.scope == total || from.scope == refusals && from.id == "" {
		p.newest(from.scope, from.minute).tally.merge(&from.tally)
		return
	}
	e := p.find(from.slot, from.registered)
	switch {
	case e != nil:
		e.tally.merge(&from.tally)
		for _, n := range from.notes[:from.used] {
			e.note(n)
		}
	case from.scope == subject:
		p.total(from.minute).tally[unlisted] += from.tally.calls()
	}
}
