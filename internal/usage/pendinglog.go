package usage

import (
	"tidegate/internal/cause"
	"tidegate/internal/usage/denylog"
)

// maxKinds is how many kinds of denials wait to be flushed at most. Denials beyond it
// are left out of the log.
const maxKinds = 256

// pendingKind is denials of a kind that wait to be flushed.
type pendingKind struct {
	denylog.Kind

	occurrences [denylog.MaxOccurrences]denylog.Occurrence
	used        int
}

// log takes a denial into the denial log.
func (p *pending) log(o Outcome, minute int64) {
	d := o.Denial
	if d == nil || d.Cause == 0 {
		return
	}
	k := denylog.Kind{
		Minute: minute, Registered: o.Registered, Subject: o.Subject, Cause: d.Cause, Plan: d.Plan,
		Limit: d.Limit, Rule: d.Rule, Method: d.Method, Path: d.Path, API: d.API, Stage: d.Stage,
		Group: d.Group,
	}
	p.addDenial(k, denylog.Occurrence{
		At: max(o.Time.UnixMilli(), 0) % (1000 * secondsPerHour), Calls: 1, RetryAfter: d.RetryAfter,
		Network: d.Network, Request: d.Request,
	})
}

// addDenial adds denials to their kind, or leaves them out.
func (p *pending) addDenial(k denylog.Kind, o denylog.Occurrence) {
	i, found := p.kindIndex[k]
	if !found {
		if len(p.kinds) == maxKinds || k.Subject != "" && !validID(k.Subject) {
			p.leaveOut(k, o.Calls)
			return
		}
		if p.kindIndex == nil {
			p.kindIndex = map[denylog.Kind]int{}
		}
		i = len(p.kinds)
		p.kinds, p.kindIndex[k] = append(p.kinds, pendingKind{Kind: k}), i
	}
	if e := &p.kinds[i]; e.used < denylog.MaxOccurrences {
		e.occurrences[e.used] = o
		e.used++
	} else {
		e.occurrences[e.used-1].Calls += o.Calls
	}
}

// leaveOut counts denials that are not in the log, in the fields of the refusals.
func (p *pending) leaveOut(k denylog.Kind, calls int64) {
	p.newest(refusals, k.Minute).tally[unlogged] += calls
	if !k.Registered || !validID(k.Subject) {
		return
	}
	if e := p.find(slot{refusals, k.Subject, k.Minute}, true); e != nil {
		e.tally[unlogged] += calls
	}
}

// refuse counts a refused credential: in all, and for a caller that proved its key.
func (p *pending) refuse(o Outcome, minute int64) {
	at := int(o.Denial.Cause - cause.Missing)
	p.newest(refusals, minute).tally[at]++
	if !o.Registered || !validID(o.Subject) {
		return
	}
	if e := p.find(slot{refusals, o.Subject, minute}, true); e != nil {
		e.tally[at]++
	}
	p.log(o, minute)
}
