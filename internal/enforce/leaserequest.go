package enforce

import (
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
	"tidegate/internal/policyset"
)

// leaseRequest is how one call takes from leased limits: from the lease that its
// environment holds, or in a step that requests the next.
type leaseRequest struct {
	shared   *sharedLimit // nil when the step is any other
	cost     int64
	asked    time.Time
	wanted   wantedLease
	drawn    bool   // from the held lease; no step is sent
	lease    *lease // that the cost was taken from
	left     int64
	decision limiter.Decision
	err      error
}

// leaseRequests are those of the steps on shared limits, in their order; nil when nothing
// is leased.
type leaseRequests []leaseRequest

// requestLeases draws from the held leases, and turns the other steps on leased limits
// into requests. It is called for a caller who is known to be allowed, or was lately.
// complete must answer every request.
func (c *Checker) requestLeases(set *compiledSet, steps []step, cost int64) leaseRequests {
	if !set.leases || len(steps) == 0 {
		return nil
	}
	all, now := make(leaseRequests, len(steps)), c.now()
	for i := range steps {
		if s := &steps[i]; s.shared.leases() {
			all[i] = leaseRequest{shared: s.shared, cost: cost, asked: now,
				wanted: wantedLease{size: cost, alone: true}}
			all[i].begin(s, set.Version)
		}
	}
	return all
}

func (r *leaseRequest) begin(s *step, version int64) {
	if pool := r.shared.pool; pool != nil {
		r.lease, r.left, r.wanted = pool.take(r.asked, r.cost)
		if r.drawn = r.lease != nil; r.drawn {
			return
		}
	}
	s.script, s.args = leaseScript, r.args(version)
}

// args are the arguments of leaseScript.
func (r *leaseRequest) args(version int64) []string {
	args := stepArgs(r.shared.program, r.cost, time.Time{}, version)
	if r.wanted.unused > 0 {
		args[2] = strconv.FormatInt(r.wanted.at.UnixMicro(), 10)
	}
	args = append(args, strconv.FormatInt(r.wanted.size, 10), strconv.FormatInt(r.wanted.unused, 10))
	if r.shared.shrinking == nil {
		return append(args, "0", "")
	}
	until := strconv.FormatInt(r.shared.shrinking.until.UnixMicro(), 10)
	return append(args, until, valkey.BinaryString(r.shared.shrinking.program))
}

// sent leaves out the steps whose cost was drawn.
func (all leaseRequests) sent(steps []step) []step {
	if !slices.ContainsFunc(all, func(r leaseRequest) bool { return r.drawn }) {
		return steps
	}
	var sent []step
	for i := range all {
		if !all[i].drawn {
			sent = append(sent, steps[i])
		}
	}
	return sent
}

// complete gives every request its reply, and returns the replies with empty ones where
// no step was sent. A request without a reply took nothing that is known.
func (all leaseRequests) complete(replies []stepReply) []stepReply {
	if all == nil {
		return replies
	}
	every := make([]stepReply, len(all))
	for i := range all {
		if all[i].drawn {
			continue
		}
		every[i], replies = replies[0], replies[1:]
		if all[i].shared != nil {
			all[i].complete(every[i].bytes)
		}
	}
	return every
}

func (r *leaseRequest) complete(reply []byte) {
	taken := r.read(reply)
	pool := r.shared.pool
	if pool == nil {
		return
	}
	if r.err == nil && r.decision.Allowed {
		r.lease = &lease{pool: pool, asked: r.asked, at: r.decision.Now, size: taken, left: taken - r.cost}
		r.lease.limits = slices.Clone(r.decision.Limits)
		r.left = r.lease.left
		r.addLeft()
	}
	pool.complete(r.wanted, r.lease)
}

// read reads what leaseScript returns.
func (r *leaseRequest) read(reply []byte) (taken int64) {
	switch {
	case string(reply) == "S":
		r.err = ErrStale
		return 0
	case len(reply) < 12:
		r.err = limiter.ErrReply
		return 0
	}
	now := policyset.TimeAt(reply[5:])
	r.decision, r.err = limiter.ParseReply(reply[4:], r.shared.at(now).counted)
	r.shared.asConfigured(r.decision.Limits, now)
	return int64(binary.BigEndian.Uint32(reply))
}

// addLeft counts what is left in the lease as remaining.
func (r *leaseRequest) addLeft() {
	for i := range r.decision.Limits {
		addRemaining(&r.decision.Limits[i], r.left)
	}
}

// decideDrawn is the decision about a drawn cost: that of the time when the lease was
// taken, less the time that passed and the calls that were drawn since.
func (r *leaseRequest) decideDrawn(now time.Time) {
	r.decision = limiter.Decision{Allowed: true, Now: now, Limits: slices.Clone(r.lease.limits)}
	passed := max(0, now.Sub(r.lease.at))
	for i := range r.decision.Limits {
		u := &r.decision.Limits[i]
		u.Reset = max(0, u.Reset-passed)
		u.Next = max(0, u.Next-passed)
	}
	r.addLeft()
}

// of returns the request of a step on a shared limit, nil when that is not leased.
func (all leaseRequests) of(i int) *leaseRequest {
	if all == nil || all[i].shared == nil {
		return nil
	}
	return &all[i]
}
