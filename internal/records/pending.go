package records

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/cause"
)

// The most that a Recorder holds between batches. Calls beyond it count in totals alone.
const (
	maxCallers = 1024
	maxOthers  = maxCallers / 2 // of them unregistered
	maxCounts  = 16384          // counters; totals and routes may have as many again
	maxKinds   = 256            // denials with details
	maxFollow  = 4096           // commands to send again
	maxKept    = 20             // request ids of a caller, kind and minute
)

// counter is a field of a hash of counts.
type counter struct {
	id    string
	scale scale
	slot  int64 // since 1970
	kind  string
}

func (c *counter) field() string { return strconv.FormatInt(c.slot%c.scale.slots(), 10) + c.kind }

// pending is the records that wait for a batch.
type pending struct {
	counts  map[counter]int64
	callers map[string]bool // whether they are registered
	others  int             // of callers, unregistered

	denials   map[counter]*denials
	states    map[stateOf]state
	ranked    map[standingOf]bool
	newcomers [partitions][]string
	unsure    map[int64]bool // minutes

	follow []write // commands that failed, or that the reply to another one calls for
	urgent bool    // leaves at once
	known  bool    // not only refusals of callers that proved nothing
}

func newPending() *pending {
	return &pending{counts: map[counter]int64{}, callers: map[string]bool{},
		denials: map[counter]*denials{}, states: map[stateOf]state{},
		ranked: map[standingOf]bool{}, unsure: map[int64]bool{}}
}

func (p *pending) empty() bool {
	return len(p.counts)+len(p.states)+len(p.ranked)+len(p.unsure)+len(p.follow) == 0
}

// add counts n calls of a kind: those of a route by the minute, all others in both scales.
func (p *pending) add(id, kind string, at time.Time, n int64) {
	scales := []scale{minutes, hours}
	if strings.HasPrefix(id, routePrefix) {
		scales = scales[:1]
	}
	for _, s := range scales {
		c := counter{id, s, s.slotOf(at), kind}
		if _, found := p.counts[c]; found || len(p.counts) < 2*maxCounts {
			p.counts[c] += n
		}
	}
}

// call counts a call by its verdict and its flags, in what an id names.
func (p *pending) call(id string, c *Call, verdict, shadow string) {
	p.add(id, verdict, c.Time, 1)
	if c.Cause == 0 && c.Cost != 1 {
		p.add(id, string(extraKind), c.Time, max(c.Cost, 0)-1)
	}
	if shadow != "" {
		p.add(id, shadow, c.Time, 1)
	}
	if c.Degraded {
		p.add(id, string(degradedKind), c.Time, 1)
	}
	if c.OldSecret {
		p.add(id, string(oldSecretKind), c.Time, 1)
	}
}

// total counts a call in the totals, in its routes and in its limit.
func (p *pending) total(c *Call) {
	verdict, shadow := c.kind(), ""
	if c.Cause == cause.Limit {
		verdict = string(deniedKind)
		p.add(limitsID, verdict+clip(c.Plan, maxText)+"\t"+clip(c.Limit, maxText), c.Time, 1)
	}
	verdict, _, _ = strings.Cut(verdict, " ") // no reason
	if c.Cause == 0 && c.Shadow != "" {
		shadow = string(shadowKind)
		p.add(limitsID, shadow+clip(c.Plan, maxText)+"\t"+clip(c.Shadow, maxText), c.Time, 1)
	}
	p.call(totalID, c, verdict, shadow)
	for _, name := range c.Routes {
		if validID(name) {
			p.call(routePrefix+name, c, verdict, shadow)
		}
	}
	if c.Degraded {
		p.unsure[minutes.slotOf(c.Time)] = true
	}
}

// room reports whether a caller may have counts of its own in the batch, and notes it.
func (p *pending) room(id string, registered bool) bool {
	if _, found := p.callers[id]; found {
		return true
	}
	if len(p.callers) >= maxCallers || !registered && p.others >= maxOthers ||
		len(p.counts) >= maxCounts {
		return false
	}
	p.callers[id] = registered
	if !registered {
		p.others++
	}
	return true
}

// denials are the denied or refused calls of a caller, a kind and a minute.
type denials struct {
	first      Call
	registered bool
	requests   []string
}

// deny keeps the details of a denied or refused call. told is how many calls of the kind
// and the minute the caller is known to have.
func (p *pending) deny(k counter, c *Call, registered bool, told int64) {
	d := p.denials[k]
	if d == nil {
		if len(p.denials) >= maxKinds {
			return
		}
		d = &denials{first: *c, registered: registered}
		p.denials[k] = d
	}
	if c.Request != "" && int64(len(d.requests))+told < maxKept {
		d.requests = append(d.requests, clip(c.Request, maxRequest))
	}
}

// entry is an entry of a stream of denials, as JSON in its field j.
type entry struct {
	Minute  int64        `json:"m"` // since 1970
	Time    int64        `json:"t"` // of the first call, in Unix milliseconds
	Caller  string       `json:"c,omitempty"`
	Kind    string       `json:"k"` // as in the caller's hash
	Plan    string       `json:"p,omitempty"`
	Group   string       `json:"g,omitempty"`
	Route   string       `json:"r,omitempty"`
	Method  string       `json:"v,omitempty"`
	Path    string       `json:"u,omitempty"`
	API     string       `json:"a,omitempty"`
	Stage   string       `json:"s,omitempty"`
	Network netip.Prefix `json:"n,omitzero"`
	Wait    int64        `json:"w,omitempty"` // Retry-After in milliseconds
}

func (d *denials) entry(k counter) string {
	c := &d.first
	route := ""
	if len(c.Routes) > 0 {
		route = c.Routes[0]
	}
	text, _ := json.Marshal(entry{ // texts, numbers and a prefix always encode
		Minute: k.slot, Time: c.Time.UnixMilli(), Caller: c.Caller, Kind: k.kind,
		Plan: clip(c.Plan, maxText), Group: clip(c.Group, maxText), Route: clip(route, maxText),
		Method: clip(c.Method, maxText), Path: clip(c.Path, maxText), API: clip(c.API, maxText),
		Stage: clip(c.Stage, maxText), Network: c.Network, Wait: c.RetryAfter.Milliseconds(),
	})
	return string(text)
}

// stateOf is a caller and what denies it: a kind, or nearState.
type stateOf struct{ caller, kind string }

const nearState = "near"

// state is what a caller's lists and its hash of states get.
type state struct {
	registered bool
	at, until  int64 // in Unix milliseconds; until is 0 if it is unknown
}

// standingOf is a place in the rankings.
type standingOf struct {
	caller string
	order  Order
}

// standing counts what a Recorder saw of a caller in an hour, a day and a month, and how
// much of it the rankings have.
type standing struct {
	period      [len(rankings)]int64
	total, sent [len(rankings)]int64
}

// ranking is a length of time that callers are ranked for.
type ranking struct {
	letter byte
	hours  int64
	kept   time.Duration
}

var rankings = [...]ranking{
	{'h', 1, 3 * time.Hour},
	{'d', dayHours, 3 * dayHours * time.Hour},
	{'m', monthHours, (monthHours + 31*dayHours) * time.Hour},
}

func (r ranking) key(partition int, o Order, period int64) string {
	return listKey(partition, string(rune(r.letter))+string(o)+strconv.FormatInt(period, 10))
}

// count counts a call at an hour since 1970.
func (s *standing) count(hour int64) {
	for i, r := range rankings {
		if period := hour / r.hours; period != s.period[i] {
			s.period[i], s.total[i], s.sent[i] = period, 0, 0
		}
		s.total[i]++
	}
}

// due returns what ranking i lacks if that is at least half of what it has.
func (s *standing) due(i int) int64 {
	if n := s.total[i] - s.sent[i]; n >= max(1, s.sent[i]/2) {
		return n
	}
	return 0
}
