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

// leaseErrors says what is wrong with the lease of a list of limits. Exact logs alone can be leased: what is leased may be used so much later than it
// was counted, which a longer window makes good there, and nothing else does.
func leaseErrors(field string, lease Duration, limits []limiter.Limit) []FieldError {
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
			return nil // they are told of
		}
		if l.Algorithm != limiter.Log || l.CountDenied {
			return refuse("only logs that do not count denied calls can be leased, and %s is none: must be left out, or that limit be changed", l)
		}
	}
	shortest := shortestWindow(limits)
	if d < MinLease || d > shortest/4 || d%time.Millisecond != 0 {
		return refuse("must be %s to a quarter of the shortest window, %s, in whole milliseconds",
			limiter.FormatWindow(MinLease), limiter.FormatWindow((shortest / 4).Truncate(time.Millisecond)))
	}
	if longest := longestWindow(limits); longest+d > limiter.MaxWindow {
		return refuse("lease and window together must be 366 days at most, so with this window no lease above %s",
			limiter.FormatWindow(limiter.MaxWindow-longest))
	}
	return nil
}

func (s Scope) unleasedErrors(field string) []FieldError {
	if s.Lease == 0 {
		return nil
	}
	return []FieldError{{field + ".lease", "is " + limiter.FormatWindow(time.Duration(s.Lease)) +
		": only limits of all callers together can be leased: must be left out"}}
}

func shortestWindow(limits []limiter.Limit) time.Duration {
	return slices.MinFunc(limits, bySpan).Span()
}

func longestWindow(limits []limiter.Limit) time.Duration {
	return slices.MaxFunc(limits, bySpan).Span()
}

func bySpan(a, b limiter.Limit) int { return cmp.Compare(a.Span(), b.Span()) }

// counting is how a state counts for a list of limits: as they are, or in windows that are longer by a lease.
type counting struct {
	counted []limiter.Limit
	program limiter.Program
}

// newCounting makes the windows of logs longer. A call that was leased at t is made before t + longer; so the calls of any window come from leases of
// one that is so much longer, which hold no more than the limit.
func newCounting(limits []limiter.Limit, longer time.Duration) (counting, error) {
	if longer > 0 {
		limits = slices.Clone(limits)
		for i, l := range limits {
			if l.Algorithm == limiter.Log {
				limits[i].Window = min(l.Window+longer, limiter.MaxWindow)
			}
		}
	}
	program, err := limiter.Compile(limits, time.Now())
	return counting{limits, program}, err
}

// leased makes a side one that environments hold shares of, for so long.
func (s *side) leased(lease time.Duration, before Lapse) (err error) {
	if lease > 0 {
		s.share = &share{lease: lease, window: shortestWindow(s.limits)}
		if s.counting, err = newCounting(s.limits, lease); err != nil {
			return err
		}
	}
	if longer := time.Duration(before.Lease); longer > lease {
		s.lapse = &lapse{until: before.Until}
		s.lapse.counting, err = newCounting(s.limits, longer)
	}
	return err
}

// leases reports whether checks take from the side by lease.lua.
func (s *side) leases() bool { return s.share != nil || s.lapse != nil }

// at is how the side counts at a time of the server.
func (s *side) at(now time.Time) counting {
	if s.lapse != nil && now.Before(s.lapse.until) {
		return s.lapse.counting
	}
	return s.counting
}

// longest is the counting that forgets nothing, whenever it is used: to give back, or to settle.
func (s *side) longest() counting {
	if s.lapse != nil {
		return s.lapse.counting
	}
	return s.counting
}

// tell makes what a state says of the counted limits what is to be said of those that are configured.
func (s *side) tell(usage []limiter.Usage, now time.Time) {
	for i := range usage {
		u := &usage[i]
		if s.lapse != nil {
			shorter := s.lapse.counted[i].Window - s.counted[i].Window
			u.Reset, u.RetryAfter = s.lapse.sooner(u.Reset, shorter, now), s.lapse.sooner(u.RetryAfter, shorter, now)
		}
		u.Limit = s.limits[i]
	}
}
