package enforce

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidegate/internal/enforce/lease"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// modelLease is the oracle's model of a lease that an environment holds.
type modelLease struct {
	requested, at time.Time // by the environment's clock; by the server's
	size, left    int64
	limits        []limiter.Usage // as of at; Remaining excludes the lease
}

// largerLeases lets a lease take up to half of what remains, so that small limits are
// leased too.
func largerLeases(t *testing.T) {
	t.Helper()
	before := lease.MaxPart
	lease.MaxPart = 2
	t.Cleanup(func() { lease.MaxPart = before })
}

// extension returns by how much a state's windows are longer than those configured.
func (o *oracle) extension(id string, lease policy.Duration) time.Duration {
	if l := o.set.ShrinkingLeases[id]; l.Lease > lease && o.now.Before(l.Until) {
		o.cases["windows of a shrinking lease"]++
		return time.Duration(l.Lease)
	}
	return time.Duration(lease)
}

// shortenWaits shortens the waits that reach beyond the end of a shrinking lease, because
// windows get shorter then.
func (o *oracle) shortenWaits(limits []limiter.Usage, id string, lease policy.Duration) {
	left, shorter := o.set.ShrinkingLeases[id].Until.Sub(o.now), o.extension(id, lease)-time.Duration(lease)
	if left <= 0 || shorter == 0 {
		return
	}
	for i := range limits {
		for _, d := range []*time.Duration{&limits[i].Reset, &limits[i].Next, &limits[i].RetryAfter} {
			if *d > left && limits[i].Limit.Algorithm == limiter.Log {
				*d = max(left, *d-shorter)
			}
		}
	}
}

// withLongerWindows returns limits whose logs have longer windows.
func withLongerWindows(limits []limiter.Limit, by time.Duration) []limiter.Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		if limits[i].Algorithm == limiter.Log {
			limits[i].Window += by
		}
	}
	return limits
}

// lease takes a cost from the lease that the environment holds, or requests the next
// lease from the state.
func (o *oracle) lease(id, name string, limits []limiter.Limit, duration time.Duration, cost int64) (
	limiter.Decision, *modelLease,
) {
	at := fmt.Sprintf("%d %d %s", o.env, o.set.Version, name)
	clock, l := o.now.Add(o.skew[o.env]), o.leases[at]
	if l != nil && clock.Sub(l.requested) < duration*999/1000 && l.left >= cost {
		l.left -= cost
		o.cases["drawn from a lease"]++
		return l.decision(o.now), l
	}
	size := cost
	if l != nil {
		size = max(cost, min(o.nextSize(l, clock.Sub(l.requested), duration, cost),
			(leastRemaining(l.limits)+l.left)/lease.MaxPart))
		if l.left > 0 {
			o.refund(name, limits, l.left, l.at)
			o.cases["unused lease given back"]++
		}
	}
	d := o.take(name, limits, size)
	if size > cost && !d.Allowed {
		size = cost
		d = o.take(name, limits, size)
		o.cases["only the cost from a leased limit"]++
	}
	o.shortenWaits(d.Limits, id, policy.Duration(duration))
	o.leases[at] = nil
	if !d.Allowed {
		return d, nil
	}
	l = &modelLease{requested: clock, at: o.now, size: size, left: size - cost,
		limits: slices.Clone(d.Limits)}
	o.leases[at] = l
	return l.decision(o.now), l
}

// nextSize returns the size of the lease after l, before it is bounded by what remains.
func (o *oracle) nextSize(l *modelLease, age, lease time.Duration, cost int64) int64 {
	over := age >= lease
	if over && 2*l.left > l.size {
		return cost
	}
	if over && l.left > 0 {
		return l.size / 2
	}
	if 2*age < lease {
		return 2 * l.size
	}
	return l.size
}

// decision returns the decision about a cost drawn from the lease.
func (l *modelLease) decision(now time.Time) limiter.Decision {
	d := limiter.Decision{Allowed: true, Now: now, Limits: slices.Clone(l.limits)}
	for i := range d.Limits {
		u := &d.Limits[i]
		u.Remaining = min(u.Remaining+l.left, u.Limit.Requests)
		u.Reset = max(0, u.Reset-now.Sub(l.at))
		u.Next = max(0, u.Next-now.Sub(l.at))
		if u.Remaining == u.Limit.Requests {
			u.Next = 0
		}
	}
	return d
}

// refund gives the unused calls of a lease back to the state.
func (o *oracle) refund(name string, limits []limiter.Limit, cost int64, at time.Time) {
	o.step(name, limiter.Step{Now: o.now, Limits: limits, Cost: -cost, Calls: 1, Taken: at})
}

// leastRemaining returns the least that remains of the limits that are not in shadow
// mode.
func leastRemaining(limits []limiter.Usage) int64 {
	least := int64(1 << 40)
	for _, u := range limits {
		if !u.Limit.Shadow {
			least = min(least, u.Remaining)
		}
	}
	return least
}
