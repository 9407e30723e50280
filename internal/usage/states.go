package usage

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
	"tidegate/internal/lua"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage/statelist"
)

const (
	// minDenied is the shortest denial that is listed.
	minDenied = time.Second
	// minNearSlack is how much longer than necessary a subject is in NearLimit, at least,
	// so that later calls need not list it again. For long windows it is a quarter of the
	// necessary time.
	minNearSlack = time.Minute
	// maxNear is how many subjects of NearLimit a Recorder remembers, and maxNearWaiting
	// how many of them wait for a flush.
	maxNear        = 4096
	maxNearWaiting = MaxSubjects / 2
	// nearTrust is how long a Recorder relies on what it listed in NearLimit, since
	// Valkey may lose it.
	nearTrust = 10 * time.Minute
)

// InState returns up to count subjects of a list of states, as statelist.Read does.
func (r *Reader) InState(
	ctx context.Context, list statelist.List, after string, now time.Time, count int,
) (ids []string, more bool, err error) {
	return statelist.Read(ctx, r.client, list, after, now, count)
}

// listDenied lists a registered subject that is denied for minDenied or longer.
func (p *pending) listDenied(o Outcome) {
	if !o.Registered || o.DeniedUntil.Sub(o.Time) < minDenied || !validID(o.Subject) {
		return
	}
	list := statelist.OverLimit
	if o.Denial != nil && o.Denial.Cause == cause.Ban {
		list = statelist.Banned
	}
	p.addState(statelist.Place{ID: o.Subject, List: list}, o.DeniedUntil.UnixMilli())
}

// listNear lists a registered subject that nearly used up a limit, unless the list has it
// for long enough.
func (r *Recorder) listNear(o Outcome) {
	if !o.Registered || o.NearUntil.IsZero() || !validID(o.Subject) ||
		o.NearUntil.UnixMilli() <= r.nearUntil[o.Subject] {
		return
	}
	slack := max(minNearSlack, o.NearUntil.Sub(o.Time)/4)
	at := statelist.Place{ID: o.Subject, List: statelist.NearLimit}
	r.pending.addState(at, o.NearUntil.Add(slack).UnixMilli())
}

func (p *pending) addState(at statelist.Place, until int64) {
	most := MaxSubjects
	if at.List == statelist.NearLimit {
		most = maxNearWaiting
	}
	if _, known := p.states[at]; !known && len(p.states) >= most {
		return
	}
	if p.states == nil {
		p.states = map[statelist.Place]int64{}
	}
	p.states[at] = until
}

// states is the payload of subjects for lists of states.
type states []statelist.Entry

// packStates sorts states into parcels, in order of their buckets.
func packStates(waiting map[statelist.Place]int64) []parcel {
	all := make([]statelist.Entry, 0, len(waiting))
	for at, until := range waiting {
		all = append(all, statelist.Entry{Place: at, Until: until})
	}
	slices.SortFunc(all, func(a, b statelist.Entry) int {
		return cmp.Or(cmp.Compare(keyspace.BucketOf(a.ID), keyspace.BucketOf(b.ID)),
			cmp.Compare(a.ID, b.ID), cmp.Compare(a.List, b.List))
	})
	return parcelsOf(all, math.MaxInt,
		func(e *statelist.Entry) place { return place{bucket: keyspace.BucketOf(e.ID)} },
		func(_ place, run []statelist.Entry) payload { return states(run) })
}

func (states) script() *lua.Script { return statelist.Script }

func (s states) arguments(b *Batch, at place) (keys, args []string) {
	return statelist.Keys(at.bucket), statelist.Args(b.now, s)
}

// acknowledge reports no error: states are not calls, and the next call of a subject that
// was perhaps not listed lists it.
func (s states) acknowledge(r *Recorder, _ place, result valkey.ValkeyResult, _ *Report) {
	err := result.Error()
	for _, e := range s {
		switch {
		case err == nil && e.List == statelist.NearLimit:
			r.rememberNear(e)
		case notExecuted(err):
			if _, newer := r.pending.states[e.Place]; !newer {
				r.pending.addState(e.Place, e.Until)
			}
		}
	}
}

func (r *Recorder) rememberNear(e statelist.Entry) {
	if len(r.nearUntil) >= maxNear {
		r.nearUntil = nil // the next call of each subject lists it again
	}
	if r.nearUntil == nil {
		r.nearUntil = map[string]int64{}
	}
	r.nearUntil[e.ID] = e.Until
}

// expireNear forgets what was listed in NearLimit, every nearTrust.
func (r *Recorder) expireNear(now time.Time) {
	if age := now.Sub(r.nearSince); age < 0 || age >= nearTrust {
		r.nearUntil = nil
		r.nearSince = now
	}
}
