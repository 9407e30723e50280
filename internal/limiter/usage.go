package limiter

import "time"

// usage evaluates every limit for a cost.
func (s *step) usage(cost int64) Decision {
	d := Decision{Allowed: true, Now: time.UnixMicro(s.now).UTC(), Limits: make([]Usage, len(s.Limits))}
	for i, l := range s.Limits {
		p := &s.parts[s.of[i]]
		cost := l.Charge(cost)
		left, reset, retry := s.usageOf(i, min(cost, l.Requests))
		if cost > l.Requests { // possible in shadow mode only
			retry = MaxWindow.Microseconds()
		}
		u := Usage{Limit: l, Remaining: max(0, left), Reset: micros(reset), RetryAfter: micros(retry)}
		if !l.CountDenied {
			u.Owed = min(max(0, -left), l.Requests)
		}
		if more := u.Remaining + 1; more <= l.Requests {
			_, _, next := s.usageOf(i, more)
			u.Next = micros(next)
		}
		if p.since > (s.now-s.elapsed(i))/1_000_000 {
			u.Since = time.Unix(p.since, 0).UTC()
		}
		d.Limits[i] = u
		d.Allowed = d.Allowed && (l.Shadow || u.RetryAfter == 0)
	}
	return d
}

// elapsed returns how long the present window of limit i has lasted.
func (s *step) elapsed(i int) int64 {
	if w := s.windows[s.of[i]]; w[1] != 0 {
		return s.now - w[0]
	}
	return s.Limits[i].Window.Microseconds()
}

// usageOf evaluates limit i for a cost. left is the remaining cost, which is negative if
// more than the limit is taken. reset and retry are the microseconds until the window is
// empty and until the cost passes.
func (s *step) usageOf(i int, cost int64) (left, reset, retry int64) {
	l, p := s.Limits[i], &s.parts[s.of[i]]
	switch p.kind {
	case counterKind:
		return p.counterUsage(s.now, l.Requests, cost)
	case bucketKind:
		return p.bucketUsage(s.now, cost)
	case fixedKind:
		ends := s.windows[s.of[i]][1]
		left = l.Requests - p.cur
		if p.cur > 0 {
			reset = ends - s.now
		}
		if cost > left {
			retry = ends - s.now
		}
		return left, reset, retry
	default:
		return p.logUsage(p.clock(s.now), l.Window.Microseconds(), l.Requests, cost)
	}
}
