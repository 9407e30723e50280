//go:build unix

package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/limits"
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
	plan, limit string
	requests    int64
	callers     int
	admitted    int
	most        int // maximum of admissions certainly in one rolling window of a caller
	possible    int // maximum of admissions possibly in one rolling window of a caller
	over        int // callers with a window certainly above the limit
}

// proof compares all answers with the limits.
type proof struct {
	windows   []*windowProof
	unfounded int // denials while every limit certainly had room
}

// holds reports whether no answer contradicts the limits.
func (p *proof) holds() bool {
	return !slices.ContainsFunc(p.windows, func(w *windowProof) bool { return w.over > 0 }) &&
		p.unfounded == 0
}

// prove compares every caller's answers with its limits. made must have all calls with the
// callers' keys.
func prove(callers []caller, made []call) *proof {
	p, calls := &proof{}, make([][]call, len(callers))
	for _, c := range made {
		calls[c.caller] = append(calls[c.caller], c)
	}
	for i, c := range callers {
		if len(calls[i]) > 0 && len(c.limits) > 0 {
			p.add(c, newEvidence(calls[i]))
		}
	}
	return p
}

// evidence has one caller's answers.
type evidence struct {
	admitted []rolling.Span // certainly admitted
	denied   []rolling.Span
	possible []rolling.Span // certainly or possibly admitted
}

func newEvidence(calls []call) evidence {
	var e evidence
	for _, c := range calls {
		switch c.kind {
		case admitted:
			e.admitted, e.possible = append(e.admitted, c.span), append(e.possible, c.span)
		case denied:
			e.denied = append(e.denied, c.span)
		case failed, undecided: // may have counted, even after the client's time-out
			c.span.Last += c.span.Last - c.span.First
			e.possible = append(e.possible, c.span)
		case unauthorized:
		}
	}
	return e
}

func (p *proof) add(c caller, e evidence) {
	for _, l := range c.limits {
		w := p.window(c.plan, l)
		w.callers++
		w.admitted += len(e.admitted)
		w.compare(e, l)
	}
	p.unfounded += unfounded(c, e)
}

// window returns the proof of a plan's limit.
func (p *proof) window(plan string, l limits.Limit) *windowProof {
	text := l.String()
	i := slices.IndexFunc(p.windows, func(w *windowProof) bool { return w.plan == plan && w.limit == text })
	if i >= 0 {
		return p.windows[i]
	}
	w := &windowProof{plan: plan, limit: text, requests: l.Requests}
	p.windows = append(p.windows, w)
	return w
}

// compare compares the admissions of one caller with the limit.
func (w *windowProof) compare(e evidence, l limits.Limit) {
	_, most := rolling.Fullest(e.admitted, shorter(l.Window))
	if int64(most) > l.Requests {
		w.over++
	}
	w.most = max(w.most, most)
	w.possible = max(w.possible, rolling.Possible(e.admitted, longer(l.Window)))
}

// exactTo is the greatest limit whose log counts call by call.
const exactTo = 1000

// unfounded counts denials while every limit certainly had room. It returns 0 for callers
// with a limit of more calls than a log counts one by one, which denies slightly too much
// by design, and with limits that are not plain logs.
func unfounded(c caller, e evidence) int {
	for _, l := range c.limits {
		if l.Requests > exactTo || l.Algorithm != limiter.Log || l.CountDenied {
			return 0
		}
	}
	h, n := rolling.NewHistory(e.possible), 0
	for _, s := range e.denied {
		if !slices.ContainsFunc(c.limits, func(l limits.Limit) bool {
			return int64(h.Around(s, longer(l.Window))) >= l.Requests // may have been reached
		}) {
			n++
		}
	}
	return n
}

func (p *proof) print(out io.Writer) {
	_, _ = fmt.Fprintln(out, "\nrolling windows\tcallers\tadmitted\tfullest\tat most\tlimit\tabove limit\t")
	for _, w := range p.windows {
		_, _ = fmt.Fprintf(out, "%s, %s\t%d\t%d\t%d\t%d\t%d\t%d\t\n",
			w.plan, w.limit, w.callers, w.admitted, w.most, w.possible, w.requests, w.over)
	}
}

// verdict is the proof in a sentence or two.
func (p *proof) verdict() string {
	over, of := 0, 0
	for _, w := range p.windows {
		over, of = over+w.over, of+w.callers
	}
	text := fmt.Sprintf("No rolling window was above its limit (%d limits of callers).", of)
	switch {
	case over > 0:
		text = fmt.Sprintf("BROKEN: %d of %d limits of callers had a rolling window above the limit.",
			over, of)
	case of == 0:
		text = "The limits are unknown: the answers have no RateLimit-Policy."
	}
	if p.unfounded > 0 {
		text += fmt.Sprintf(" BROKEN: %d calls were denied although every limit had room.", p.unfounded)
	}
	return text
}
