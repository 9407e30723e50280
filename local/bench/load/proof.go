//go:build unix

package main

import (
	"slices"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/testing/rolling"
)

// drift bounds the drift between the clocks of client and server to 1/drift, which is
// more than an operating system ever slews a clock. Windows are taken as that much
// shorter or longer, so that no reported violation is false.
const drift = 1000

func shorter(window time.Duration) time.Duration { return window - window/drift }

func longer(window time.Duration) time.Duration { return window + window/drift }

// windowProof has the fullest rolling windows of one limit.
type windowProof struct {
	Plan     string `json:"plan"`
	Limit    string `json:"limit"`
	Requests int64  `json:"requests"`
	Callers  int    `json:"callers"`
	Admitted int    `json:"admitted"`
	Most     int    `json:"most"`     // maximum of admissions certainly in one rolling window of a caller
	Possible int    `json:"possible"` // maximum of admissions possibly in one rolling window of a caller
	Caller   string `json:"caller"`   // the caller with the fullest window
	Over     int    `json:"over"`     // callers with a window certainly above the limit
}

// proof compares all answers with the limits.
type proof struct {
	Windows []*windowProof `json:"windows"`
	// Unknown is the number of admissions of callers with unknown limits.
	Unknown int `json:"unknown"`
	// Unfounded is the number of denials while every limit certainly had room.
	Unfounded int `json:"unfounded"`
}

// holds reports whether no answer contradicts the limits.
func (p *proof) holds() bool {
	return !slices.ContainsFunc(p.Windows, func(w *windowProof) bool { return w.Over > 0 }) &&
		p.Unfounded == 0
}

// prove compares every caller's answers with its limits. outcomes must have all calls
// with the callers' keys.
func prove(callers []caller, outcomes []outcome) *proof {
	p := &proof{}
	calls := byCaller(outcomes)
	for i, c := range callers {
		if own := calls[int32(i)]; len(own) > 0 && !c.unregistered {
			p.add(c, newEvidence(own))
		}
	}
	return p
}

func byCaller(outcomes []outcome) map[int32][]outcome {
	all := map[int32][]outcome{}
	for _, o := range outcomes {
		all[o.caller] = append(all[o.caller], o)
	}
	return all
}

// evidence has one caller's answers.
type evidence struct {
	admitted []rolling.Span // certainly admitted
	denied   []rolling.Span
	possible []rolling.Span // certainly or possibly admitted
}

func newEvidence(calls []outcome) evidence {
	var e evidence
	for _, o := range calls {
		switch o.kind {
		case admitted:
			e.admitted, e.possible = append(e.admitted, o.span()), append(e.possible, o.span())
		case denied:
			e.denied = append(e.denied, o.span())
		case broken, failed, undecided: // may have counted, even after the client's time-out
			s := o.span()
			s.Last += s.Last - s.First
			e.possible = append(e.possible, s)
		default:
		}
	}
	return e
}

func (p *proof) add(c caller, e evidence) {
	if len(c.limits) == 0 {
		p.Unknown += len(e.admitted)
		return
	}
	for _, l := range c.limits {
		w := p.window(c.plan, l)
		w.Callers++
		w.Admitted += len(e.admitted)
		w.compare(c, e, l)
	}
	p.Unfounded += unfounded(c, e)
}

// window returns the proof of a plan's limit.
func (p *proof) window(plan string, l limiter.Limit) *windowProof {
	text := l.String()
	i := slices.IndexFunc(p.Windows, func(w *windowProof) bool { return w.Plan == plan && w.Limit == text })
	if i >= 0 {
		return p.Windows[i]
	}
	w := &windowProof{Plan: plan, Limit: text, Requests: l.Requests}
	p.Windows = append(p.Windows, w)
	return w
}

// compare compares the admissions of one caller with the limit.
func (w *windowProof) compare(c caller, e evidence, l limiter.Limit) {
	_, most := rolling.Fullest(e.admitted, shorter(l.Window))
	if int64(most) > l.Requests {
		w.Over++
	}
	if w.Caller == "" || most > w.Most {
		w.Most, w.Caller = most, c.name
	}
	w.Possible = max(w.Possible, rolling.Possible(e.admitted, longer(l.Window)))
}

// unfounded counts denials while every limit certainly had room. It returns 0 for callers
// with a limit of more calls than a log has slots, which denies slightly too much by
// design, and with limits that are not plain logs.
func unfounded(c caller, e evidence) int {
	for _, l := range c.limits {
		if l.Requests > limiter.DefaultSlots || l.Algorithm != limiter.Log || l.CountDenied {
			return 0
		}
	}
	h, n := rolling.NewHistory(e.possible), 0
	for _, s := range e.denied {
		if !slices.ContainsFunc(c.limits, func(l limiter.Limit) bool {
			return int64(h.Around(s, longer(l.Window))) >= l.Requests // may have been reached
		}) {
			n++
		}
	}
	return n
}
