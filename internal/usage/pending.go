package usage

import (
	"tidegate/internal/cause"
	"tidegate/internal/usage/statelist"
)

// The most that a Recorder holds between flushes.
const (
	MaxSubjects = 1024
	MaxRules    = 64 // a minute
	// maxUnregistered leaves half of MaxSubjects to registered subjects.
	maxUnregistered = MaxSubjects / 2
	// maxMinutes is how many minutes of totals and rules are counted separately. While
	// Valkey stays unavailable, later minutes are added to the newest of them.
	maxMinutes = 8
	// maxNotes is how many notes a subject has in a minute: one for each second, for
	// allowed and for denied calls.
	maxNotes = 4
	// maxRefusals bounds the entries of refusals: of all callers, and of known keys.
	maxRefusals = maxMinutes + 256
)

// scope says what a slot counts.
type scope byte

const (
	total scope = iota
	rule
	subject
	refusals // by cause, not by kind; of all callers when the id is empty
)

// slot is a minute of something that is counted.
type slot struct {
	scope  scope
	id     string
	minute int64 // since 1970
}

// width returns how many field numbers the counts of a minute or an hour have.
func (s slot) width() int64 {
	if s.scope == refusals {
		return causesPerSlot
	}
	return kindsPerSlot
}

// entry is the counts of a slot.
type entry struct {
	slot
	registered bool
	tally      tally
	notes      [maxNotes]note
	used       int // notes in use
}

// pending is the records that wait for a flush. Calls beyond its bounds count in the
// totals alone.
type pending struct {
	index   map[slot]int // of entries
	entries []entry
	// Numbers of entries by scope. unregistered are among subjects. anonymous are the
	// refusals, and their kinds of denials, of callers that proved no key.
	totals, rules, subjects, unregistered, refusals, anonymous int

	denials, trials pendingLog // of denied calls, and of calls that passed

	states map[statelist.Place]int64 // end of each state, in Unix milliseconds
}

func newPending(size int) *pending {
	return &pending{index: make(map[slot]int, size), entries: make([]entry, 0, size)}
}

func (p *pending) empty() bool {
	return p.size() == 0
}

// urgent reports whether the pending records are reason for a Batch. Refusals of callers
// that proved no key wait for other records, or for maxWait, so that a flood of them costs
// few round trips.
func (p *pending) urgent() bool { return p.size() > p.anonymous }

func (p *pending) size() int {
	return len(p.entries) + len(p.denials.list) + len(p.trials.list) + len(p.states)
}

// record counts a call.
func (p *pending) record(o Outcome) {
	seconds, cost := max(o.Time.Unix(), 0), max(o.Cost, 1)
	minute := seconds / secondsPerMinute
	if o.Denial != nil && o.Denial.Cause.Refuses() {
		p.countRefusals(o.Registered, o.Subject, minute, kind(o.Denial.Cause-cause.Missing), 1)
		if o.Registered && validID(o.Subject) || o.Denial.Reason != "" {
			p.logDenial(&o, o.Denial, minute)
		}
		return
	}
	p.total(minute).tally.add(o.Verdict, cost)
	p.listDenied(o)
	for _, id := range o.Rules {
		if !validID(id) {
			continue
		}
		if e := p.find(slot{rule, id, minute}, true); e != nil {
			e.tally.add(o.Verdict, cost)
		}
	}
	if o.Verdict&Denied != 0 {
		p.logDenial(&o, o.Denial, minute)
	}
	for i := range o.Trials {
		p.logDenial(&o, &o.Trials[i], minute)
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

// countRefusals adds to a count of refusals: of all callers, and of a registered subject.
func (p *pending) countRefusals(registered bool, subject string, minute int64, k kind, n int64) {
	p.newest(refusals, minute).tally[k] += n
	if !registered || !validID(subject) {
		return
	}
	if e := p.find(slot{refusals, subject, minute}, true); e != nil {
		e.tally[k] += n
	}
}

// find returns the entry of a slot, a new one if there is room, or nil. The result is
// valid until the next call of find.
func (p *pending) find(s slot, registered bool) *entry {
	if i, ok := p.index[s]; ok {
		return &p.entries[i]
	}
	if !p.reserve(s.scope, registered) {
		return nil
	}
	p.index[s] = len(p.entries)
	p.entries = append(p.entries, entry{slot: s, registered: registered})
	return &p.entries[len(p.entries)-1]
}

// reserve counts one more entry, and reports whether there is room for it.
func (p *pending) reserve(s scope, registered bool) bool {
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
	case s == refusals && p.refusals < maxRefusals:
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

// newest returns the entry of a minute, for totals or for the refusals of all callers. If
// there is no room for another minute, it returns the newest entry: no call is left out.
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

// note adds the calls of a second. With maxNotes in use, it adds them to the last note of
// the same outcome, or drops the note. The counts include the calls in any case.
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

// takeBack adds the counts of an entry that a flush did not store.
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
