package enforce

import (
	"slices"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/enforce/lease"
)

// leaseRequests are those of the steps on shared limits, in their order; nil when nothing
// is leased.
type leaseRequests []lease.Request

// requestLeases draws from the held leases, and turns the other steps on leased limits
// into requests. It is called for a caller who is known to be allowed, or was lately.
// complete must answer every request.
func (c *Checker) requestLeases(set *compiled.Set, steps []step, cost int64) leaseRequests {
	if !set.Leases || len(steps) == 0 {
		return nil
	}
	all, now := make(leaseRequests, len(steps)), c.now()
	for i := range steps {
		s := &steps[i]
		if !s.shared.Leased() {
			continue
		}
		if all[i] = s.shared.Request(now, cost); !all[i].Drawn() {
			s.script, s.args = leaseScript, all[i].Args(set.Version)
		}
	}
	return all
}

// sent leaves out the steps whose cost was drawn.
func (all leaseRequests) sent(steps []step) []step {
	if !slices.ContainsFunc(all, func(r lease.Request) bool { return r.Drawn() }) {
		return steps
	}
	var sent []step
	for i := range all {
		if !all[i].Drawn() {
			sent = append(sent, steps[i])
		}
	}
	return sent
}

// complete gives every request its reply, and returns the replies with empty ones where
// no step was sent.
func (all leaseRequests) complete(replies []stepReply) []stepReply {
	if all == nil {
		return replies
	}
	every := make([]stepReply, len(all))
	for i := range all {
		if all[i].Drawn() {
			continue
		}
		every[i], replies = replies[0], replies[1:]
		if all[i].Leased() {
			all[i].Complete(every[i].bytes)
		}
	}
	return every
}

// of returns the request of a step on a shared limit, nil when that is not leased.
func (all leaseRequests) of(i int) *lease.Request {
	if all == nil || !all[i].Leased() {
		return nil
	}
	return &all[i]
}
