package usage

import (
	"cmp"
	"slices"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage/statelist"
)

const (
	// leastDenied is how long a subject must be denied to be listed.
	leastDenied = time.Second
	// leastSlack is how much longer than needed a subject is in NearLimit at least, so
	// that calls that follow need not list it again. A quarter of what is needed is more
	// for long windows.
	leastSlack = time.Minute
	// maxNear is how many subjects of NearLimit a Recorder remembers, and maxNearWaiting
	// how many of them wait for a flush.
	maxNear        = 4096
	maxNearWaiting = MaxSubjects / 2
	// nearFor is how long a Recorder relies on what it listed in NearLimit, since Valkey
	// may lose it.
	nearFor = 10 * time.Minute
)

// listDenied lists a registered subject that is denied until a time that is not near.
func (p *pending) listDenied(o Outcome) {
	if !o.Registered || o.DeniedUntil.Sub(o.Time) < leastDenied || !validID(o.Subject) {
		return
	}
	list := statelist.OverLimit
	if o.Denial != nil && o.Denial.Cause == cause.Ban {
		list = statelist.Banned
	}
	p.addListed(statelist.Place{ID: o.Subject, List: list}, o.DeniedUntil.UnixMilli())
}

// listNear lists a registered subject that nearly used up a limit, unless the list has it
// for long enough.
func (r *Recorder) listNear(o Outcome) {
	if !o.Registered || o.NearUntil.IsZero() || !validID(o.Subject) ||
		o.NearUntil.UnixMilli() <= r.near[o.Subject] {
		return
	}
	slack := max(leastSlack, o.NearUntil.Sub(o.Time)/4)
	place := statelist.Place{ID: o.Subject, List: statelist.NearLimit}
	r.pending.addListed(place, o.NearUntil.Add(slack).UnixMilli())
}

func (p *pending) addListed(place statelist.Place, until int64) {
	most := MaxSubjects
	if place.List == statelist.NearLimit {
		most = maxNearWaiting
	}
	if _, known := p.listed[place]; !known && len(p.listed) >= most {
		return
	}
	if p.listed == nil {
		p.listed = map[statelist.Place]int64{}
	}
	p.listed[place] = until
}

// packListed sorts listed subjects into parcels, in order of their slots.
func packListed(waiting map[statelist.Place]int64) []parcel {
	all := make([]statelist.Entry, 0, len(waiting))
	for place, until := range waiting {
		all = append(all, statelist.Entry{Place: place, Until: until})
	}
	slices.SortFunc(all, func(a, b statelist.Entry) int {
		return cmp.Or(cmp.Compare(keyspace.BucketOf(a.ID), keyspace.BucketOf(b.ID)),
			cmp.Compare(a.ID, b.ID), cmp.Compare(a.List, b.List))
	})
	var parcels []parcel
	for _, s := range all {
		last := len(parcels) - 1
		if b := keyspace.BucketOf(s.ID); last < 0 || parcels[last].bucket != b {
			parcels, last = append(parcels, parcel{bucket: b}), last+1
		}
		parcels[last].listed = append(parcels[last].listed, s)
	}
	return parcels
}

// acknowledgeListed is acknowledge of listed subjects. They are no calls: one that was
// perhaps not listed is listed by its next call.
func (r *Recorder) acknowledgeListed(p *parcel, err error) {
	for _, s := range p.listed {
		switch {
		case err == nil && s.List == statelist.NearLimit:
			r.rememberNear(s)
		case notExecuted(err):
			if _, newer := r.pending.listed[s.Place]; !newer {
				r.pending.addListed(s.Place, s.Until)
			}
		}
	}
}

func (r *Recorder) rememberNear(s statelist.Entry) {
	if len(r.near) >= maxNear {
		r.near = nil // whoever calls is listed again
	}
	if r.near == nil {
		r.near = map[string]int64{}
	}
	r.near[s.ID] = s.Until
}

// forgetNear forgets after nearFor what was listed in NearLimit.
func (r *Recorder) forgetNear(now time.Time) {
	if age := now.Sub(r.nearSince); age < 0 || age >= nearFor {
		r.near, r.nearSince = nil, now
	}
}
