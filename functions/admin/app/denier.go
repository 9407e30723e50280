package app

import (
	"slices"
	"time"

	"tidegate/internal/answer"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// Denier is a limit that denies calls of a caller now.
type Denier struct {
	Limit string    `json:"limit" doc:"As clients know it" example:"10 per 10 seconds on search"`
	Part  string    `json:"part,omitempty" doc:"Which calls it denies; absent for every call" example:"of search"`
	Until time.Time `json:"until,omitzero" required:"false" doc:"When a call passes if nobody calls; absent if none ever does"`
	Every bool      `json:"-"` // the limit counts every call of the caller or its group
}

// String names the limit, for a person.
func (d Denier) String() string { return d.Limit }

// deniers returns the limits that deny calls of a caller now, those that deny longest first.
// The states of its own limits and of its group's are read. Of limits of addresses, of
// parameters and of all callers, the caller's last denials tell: they hold for as long as
// the denial said, unless the policy no longer has the limit.
func deniers(set *policy.Set, e policy.Effective, states []enforce.LimitState, recorded records.State,
	at time.Time) []Denier {
	var all []Denier
	read := map[string]bool{}
	for _, l := range states {
		if l.Unread || l.CountsOnly || apart(l.Limit) {
			continue
		}
		read[answer.NameOf(l.Limit)] = true
		if l.Denies() {
			d := Denier{Limit: answer.NameOf(l.Limit), Part: partOf(l.Limit), Every: l.On == ""}
			if !l.Never {
				d.Until = at.Add(l.RetryAfter)
			}
			all = append(all, d)
		}
	}
	for _, d := range recorded.Deniers {
		l, found := limitNamed(set, e, d.Limit)
		if d.Cause == cause.Limit && d.Until.After(at) && !read[d.Limit] && found {
			all = append(all, Denier{Limit: d.Limit, Part: partOf(l), Until: d.Until})
		}
	}
	slices.SortStableFunc(all, func(a, b Denier) int {
		switch {
		case a.Until.IsZero() != b.Until.IsZero():
			if a.Until.IsZero() {
				return -1
			}
			return 1
		default:
			return b.Until.Compare(a.Until)
		}
	})
	return all
}

// apart reports whether a limit counts apart for something that calls of one caller can
// differ in, so that no read of one count tells whether the caller is denied.
func apart(l limits.Limit) bool {
	return l.Who == limits.EachAddress || l.Param != "" || l.Who == limits.CallerPattern
}

// limitNamed returns the enforced limit that clients know by a name, among those that may
// hold for a caller. A limit that an override replaces denies nothing.
func limitNamed(set *policy.Set, e policy.Effective, name string) (limits.Limit, bool) {
	for _, a := range set.Language().Candidates(e.Caller) {
		if !a.Shadow && !a.CountsOnly && answer.NameOf(a.Limit) == name {
			return a.Limit, true
		}
	}
	return limits.Limit{}, false
}

// partOf names the calls that a limit counts, if others pass it.
func partOf(l limits.Limit) string {
	switch {
	case l.Who == limits.EachAddress:
		return "from that address"
	case l.Param != "":
		return "with that {" + l.Param + "}"
	case l.On != "":
		return "of " + l.On
	}
	return ""
}

// deniedByLimit reports whether a list of states has a caller among the denied ones.
func deniedByLimit(recorded records.State, at time.Time) bool {
	return slices.ContainsFunc(recorded.Deniers, func(d records.Denier) bool {
		return d.Cause == cause.Limit && d.Until.After(at)
	})
}
