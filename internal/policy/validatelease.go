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

// leaseErrors says what is wrong with the lease of limits, whose field is list. Exact
// logs alone can be leased: what is leased may be used so much later than it was counted,
// which a longer window makes good there, and nothing else does.
func leaseErrors(field string, lease Duration, list string, limits []limiter.Limit) []FieldError {
	d := time.Duration(lease)
	if d == 0 {
		return nil
	}
	refuse := func(format string, args ...any) []FieldError {
		return []FieldError{{field, "is " + limiter.FormatWindow(d) + ": " + fmt.Sprintf(format, args...)}}
	}
	if len(limits) == 0 {
		return refuse("there is no limit to lease: must be left out, or a limit be added")
	}
	for _, l := range limits {
		if len(l.Errors()) > 0 {
			return nil // they are reported
		}
		if l.Shadow {
			return refuse("a limit in shadow mode, %s, cannot be leased: must be left out, or the mode be "+
				"given to all limits of the list", l)
		}
		if l.Algorithm != limiter.Log || l.CountDenied {
			return refuse("only logs that do not count denied calls can be leased, and %s is none: must be "+
				"left out, or that limit be changed", l)
		}
	}
	shortest := ShortestWindow(limits)
	if d < MinLease || d > shortest/4 || d%time.Millisecond != 0 {
		return refuse("must be %s to a quarter of the shortest window, %s, in whole milliseconds",
			limiter.FormatWindow(MinLease), limiter.FormatWindow((shortest / 4).Truncate(time.Millisecond)))
	}
	if longest := LongestWindow(limits); longest+d > limiter.MaxWindow {
		return refuse(
			"lease and window together must be 366 days at most, so with this window no lease above %s",
			limiter.FormatWindow(limiter.MaxWindow-longest))
	}
	return unnotifiedErrors(list, limits, ofLeased)
}

func (s Scope) unleasedErrors(field string) []FieldError {
	if s.Lease == 0 {
		return nil
	}
	return []FieldError{{field + ".lease", "is " + limiter.FormatWindow(time.Duration(s.Lease)) +
		": only limits of all callers together can be leased: must be left out"}}
}

// unnotifiedErrors refuses thresholds of limits that no call crosses.
func unnotifiedErrors(field string, limits []limiter.Limit, why string) []FieldError {
	var fields []FieldError
	for i, l := range limits {
		if l.Notify != (limiter.Thresholds{}) {
			fields = append(fields, FieldError{fmt.Sprintf("%s[%d].notify", field, i), why})
		}
	}
	return fields
}

// ofLeased and ofCandidate say why limits have no thresholds.
const (
	ofLeased = "is set, but environments lease shares of the limit, so no call crosses it: must be left " +
		"out, or the lease be"
	ofCandidate = "is set, but a candidate is on trial: must be left out"
)

// ShortestWindow returns the shortest window of limits; there must be one.
func ShortestWindow(limits []limiter.Limit) time.Duration {
	return slices.MinFunc(limits, bySpan).Span()
}

// LongestWindow returns the longest window of limits; there must be one.
func LongestWindow(limits []limiter.Limit) time.Duration {
	return slices.MaxFunc(limits, bySpan).Span()
}

func bySpan(a, b limiter.Limit) int { return cmp.Compare(a.Span(), b.Span()) }
