package usage

import "tidegate/internal/cause"

// Counts are numbers of calls.
type Counts struct {
	Allowed         int64
	Denied          int64
	ShadowDenied    int64 // of all calls, those that a limit in shadow mode would have denied
	CandidateDenied int64 // of all calls, those that a candidate limit would have denied
	Degraded        int64 // of all calls, those decided without the store
	Cost            int64 // of the allowed calls together
	Unlisted        int64 // of all calls, those whose subject has no counts of its own; only in totals
	OldSecret       int64 // of all calls, those with the secret from before the last rotation
}

// Calls returns how many calls there were.
func (c Counts) Calls() int64 { return c.Allowed + c.Denied }

// Plus returns the sum.
func (c Counts) Plus(d Counts) Counts {
	return Counts{
		c.Allowed + d.Allowed, c.Denied + d.Denied, c.ShadowDenied + d.ShadowDenied,
		c.CandidateDenied + d.CandidateDenied,
		c.Degraded + d.Degraded, c.Cost + d.Cost, c.Unlisted + d.Unlisted,
		c.OldSecret + d.OldSecret,
	}
}

// kind numbers what is stored.
type kind int

const (
	allowed kind = iota
	denied
	shadowDenied
	candidateDenied
	degraded
	extraCost // above one, of allowed calls
	unlisted
	oldSecret
	kinds
)

// unlogged is what the denial log left out. It follows the causes of refusals, which a
// tally of these counts in place of kinds.
const unlogged = cause.Refusals

// A minute or an hour has so many field numbers.
const (
	kindsPerSlot  = 8
	causesPerSlot = 16
)

// tally counts by kind, or by cause.
type tally [cause.Refusals + 1]int64

// add counts a call.
func (t *tally) add(v Verdict, cost int64) {
	if v&Denied != 0 {
		t[denied]++
	} else {
		t[allowed]++
		t[extraCost] += cost - 1
	}
	if v&ShadowDenied != 0 {
		t[shadowDenied]++
	}
	if v&CandidateDenied != 0 {
		t[candidateDenied]++
	}
	if v&Degraded != 0 {
		t[degraded]++
	}
	if v&OldSecret != 0 {
		t[oldSecret]++
	}
}

func (t *tally) merge(other *tally) {
	for k, n := range other {
		t[k] += n
	}
}

func (t *tally) calls() int64 { return t[allowed] + t[denied] }

func (t *tally) counts() Counts {
	return Counts{
		Allowed: t[allowed], Denied: t[denied], ShadowDenied: t[shadowDenied],
		CandidateDenied: t[candidateDenied],
		Degraded:        t[degraded], Cost: t[allowed] + t[extraCost], Unlisted: t[unlisted],
		OldSecret: t[oldSecret],
	}
}
