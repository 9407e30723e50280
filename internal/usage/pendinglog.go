package usage

import "tidegate/internal/cause"

// maxGroups is how many groups of denials wait to be flushed at most. Denials beyond it
// are left out of the log.
const maxGroups = 256

// pendingGroup is denials of a group that wait to be flushed.
type pendingGroup struct {
	group
	occurrences [maxOccurrences]occurrence
	used        int
}

// log takes a denial into the denial log.
func (p *pending) log(o Outcome, minute int64) {
	d := o.Denial
	if d == nil || d.Cause == 0 {
		return
	}
	g := group{
		minute: minute, registered: o.Registered, subject: o.Subject, cause: d.Cause, plan: d.Plan,
		limit: d.Limit, rule: d.Rule, method: d.Method, path: d.Path, api: d.API, stage: d.Stage,
		keyGroup: d.Group,
	}
	p.addDenial(g, occurrence{
		at: max(o.Time.UnixMilli(), 0) % (1000 * secondsPerHour), calls: 1, retryAfter: d.RetryAfter,
		network: d.Network, request: d.Request,
	})
}

// addDenial adds denials to their group, or leaves them out.
func (p *pending) addDenial(g group, o occurrence) {
	i, found := p.groupIndex[g]
	if !found {
		if len(p.groups) == maxGroups || g.subject != "" && !validID(g.subject) {
			p.leaveOut(g, o.calls)
			return
		}
		if p.groupIndex == nil {
			p.groupIndex = map[group]int{}
		}
		i = len(p.groups)
		p.groups, p.groupIndex[g] = append(p.groups, pendingGroup{group: g}), i
	}
	if e := &p.groups[i]; e.used < maxOccurrences {
		e.occurrences[e.used] = o
		e.used++
	} else {
		e.occurrences[e.used-1].calls += o.calls
	}
}

// leaveOut counts denials that are not in the log, beside the refusals.
func (p *pending) leaveOut(g group, calls int64) {
	p.newest(refusals, g.minute).tally[unlogged] += calls
	if !g.registered || !validID(g.subject) {
		return
	}
	if e := p.find(slot{refusals, g.subject, g.minute}, true); e != nil {
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
