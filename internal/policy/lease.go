package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"tidegate/internal/limiter"
)

// MinLease is the shortest lease.
const MinLease = 10 * time.Millisecond

// leaseErrors validates the lease of limits; list is the name of the limits' field. Only
// exact logs can be leased. Leased calls are made up to a lease after they were counted.
// In a log, a window that is longer by the lease makes up for that.
func leaseErrors(field string, lease Duration, list string, limits []limiter.Limit) []FieldError {
	d := time.Duration(lease)
	if d == 0 {
		return nil
	}
	refuse := func(format string, args ...any) []FieldError {
		return []FieldError{{field, "is " + limiter.FormatWindow(d) + ": " + fmt.Sprintf(format, args...)}}
	}
	if len(limits) == 0 {
		return refuse("there is no limit to lease: add one, or leave the lease out")
	}
	for _, l := range limits {
		if len(l.Errors()) > 0 {
			return nil // limitErrors reports them
		}
		if l.Shadow {
			return refuse("%s is in shadow mode and cannot be leased: leave the lease out, or set the mode "+
				"of the whole list", l)
		}
		if l.Calls {
			return refuse("a lease takes the cost of many calls at once, but %s counts calls: leave the "+
				"lease out, or let the limit count cost", l)
		}
		if l.Algorithm != limiter.Log {
			return refuse("only logs can be leased, unlike %s: change that limit, or leave the lease out", l)
		}
	}
	shortest := ShortestWindow(limits)
	if d < MinLease || d > shortest/4 || d%time.Millisecond != 0 {
		return refuse("must be %s to a quarter of the shortest window, %s, in whole milliseconds",
			limiter.FormatWindow(MinLease), limiter.FormatWindow((shortest / 4).Truncate(time.Millisecond)))
	}
	if longest := LongestWindow(limits); longest+d > limiter.MaxWindow {
		return refuse(
			"lease and window together must be at most 366 days: with this window, lease up to %s",
			limiter.FormatWindow(limiter.MaxWindow-longest))
	}
	return unnotifiedErrors(list, limits, leasedNotify)
}

func (s Scope) unleasedErrors(field string) []FieldError {
	if s.Lease == 0 {
		return nil
	}
	return []FieldError{{field + ".lease", "is " + limiter.FormatWindow(time.Duration(s.Lease)) +
		": only limits on all callers can be leased: leave it out"}}
}

// unnotifiedErrors refuses thresholds on limits whose thresholds no call crosses.
func unnotifiedErrors(field string, limits []limiter.Limit, why string) []FieldError {
	var fields []FieldError
	for i, l := range limits {
		if l.Notify != (limiter.Thresholds{}) {
			fields = append(fields, FieldError{fmt.Sprintf("%s[%d].notify", field, i), why})
		}
	}
	return fields
}

// Reasons of unnotifiedErrors.
const (
	leasedNotify = "is set, but no single call crosses a threshold of a leased limit: leave it out, or " +
		"leave the lease out"
	candidateNotify = "is set, but candidate limits have no thresholds: leave it out"
)

// ShortestWindow returns the shortest window of limits; there must be at least one.
func ShortestWindow(limits []limiter.Limit) time.Duration {
	return slices.MinFunc(limits, bySpan).Span()
}

// LongestWindow returns the longest window of limits; there must be at least one.
func LongestWindow(limits []limiter.Limit) time.Duration {
	return slices.MaxFunc(limits, bySpan).Span()
}

func bySpan(a, b limiter.Limit) int { return cmp.Compare(a.Span(), b.Span()) }

// ShrinkingLease is a lease that a save shortened or ended. Calls that were leased before
// the save may be made a whole lease after they were counted. So limits count by the
// longer lease until these calls are outside every window.
type ShrinkingLease struct {
	Lease Duration  `json:"lease"`
	Ended time.Time `json:"ended"` // when it was in force last; by the server's clock, like Until
	Until time.Time `json:"until"`
}

// ShrinkingMargin bounds how far the clock of the saving process may be behind the
// server's, plus how long a save takes to reach every bucket.
const ShrinkingMargin = time.Minute

// leaseTerms has what the lease of a list of limits on all callers depends on.
type leaseTerms struct {
	lease  time.Duration
	window time.Duration // the longest
}

// leaseTerms returns the terms of all limits on all callers, by subject.
func (s *Set) leaseTerms() map[string]leaseTerms {
	all := map[string]leaseTerms{}
	add := func(id string, limits []limiter.Limit, lease Duration) {
		if len(limits) > 0 {
			all[id] = leaseTerms{time.Duration(lease), LongestWindow(limits)}
		}
	}
	add(GlobalID, s.Global.Limits, s.Global.Lease)
	for _, r := range s.Routes {
		add(RouteID(r.Name), r.Shared, r.SharedLease)
	}
	return all
}

// ShrinkingLeasesAfter returns the shrinking leases that hold after next replaces s.
func (s *Set) ShrinkingLeasesAfter(next *Set, now time.Time) map[string]ShrinkingLease {
	leases, old, current := map[string]ShrinkingLease{}, s.leaseTerms(), next.leaseTerms()
	for id, l := range s.ShrinkingLeases {
		if now.Before(l.Until) {
			leases[id] = l
			if _, found := old[id]; !found { // a later save may add these limits again
				old[id] = leaseTerms{}
			}
		}
	}
	for id, before := range old {
		after, l := current[id], leases[id]
		if before.lease > after.lease {
			l.Lease = max(l.Lease, Duration(before.lease))
			l.Ended = now.UTC().Truncate(time.Millisecond)
		}
		if l.Lease <= Duration(after.lease) {
			continue
		}
		until := l.Ended.Add(max(before.window, after.window) + time.Duration(l.Lease) + ShrinkingMargin)
		if until.After(l.Until) {
			l.Until = until
		}
		leases[id] = l
	}
	if len(leases) == 0 {
		return nil
	}
	return leases
}
