package lease

import (
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
	"tidegate/internal/policyset"
)

// Request takes the cost of one call from leased limits: from the lease that the
// environment holds, or in a step that requests the next lease. Every Request that was
// not drawn must be completed. The zero value stands for limits that are not leased.
type Request struct {
	limits   *Limits
	cost     int64
	began    time.Time // by the environment's clock
	order    order
	drawn    bool   // the cost was drawn from the held lease
	lease    *Lease // lease that the cost was taken from; nil if the state gave it
	left     int64  // calls left in lease
	decision limiter.Decision
	err      error
}

// Request draws a cost from the held lease, or orders the next lease. It is called only
// for a caller that is known to be allowed, or was lately, and only for leased limits.
// now is the environment's clock.
func (l *Limits) Request(now time.Time, cost int64) Request {
	r := Request{limits: l, cost: cost, began: now, order: order{size: cost, costOnly: true}}
	if l.pool != nil {
		r.lease, r.left, r.order = l.pool.take(now, cost)
		r.drawn = r.lease != nil
	}
	return r
}

// Leased reports whether the limits are leased.
func (r *Request) Leased() bool { return r.limits != nil }

// Drawn reports whether the cost was drawn from the held lease, so that no step is sent.
func (r *Request) Drawn() bool { return r.drawn }

// Lease returns the lease that the cost was taken from; nil if the state gave it.
func (r *Request) Lease() *Lease { return r.lease }

// Args returns the arguments of lease.lua, which requests the next lease. version is that
// of the policy set.
func (r *Request) Args(version int64) []string {
	takenAt := "0" // when the calls that are given back were taken
	if r.order.unused > 0 {
		takenAt = strconv.FormatInt(r.order.takenAt.UnixMicro(), 10)
	}
	until, program := "0", ""
	if s := r.limits.shrinking; s != nil {
		until, program = strconv.FormatInt(s.until.UnixMicro(), 10), valkey.BinaryString(s.Program)
	}
	return []string{
		valkey.BinaryString(r.limits.Program), strconv.FormatInt(r.cost, 10), takenAt,
		strconv.FormatInt(version, 10), strconv.FormatInt(r.order.size, 10),
		strconv.FormatInt(r.order.unused, 10), until, program,
	}
}

// Complete reads the reply of lease.lua; empty if there was none.
func (r *Request) Complete(reply []byte) {
	taken := r.parse(reply)
	pool := r.limits.pool
	if pool == nil {
		return
	}
	if r.err == nil && r.decision.Allowed {
		r.lease = &Lease{pool: pool, requested: r.began, at: r.decision.Now, size: taken,
			left: taken - r.cost, limits: slices.Clone(r.decision.Limits)}
		r.left = r.lease.left
		r.addLeft()
	}
	pool.complete(r.order, r.lease)
}

// parse reads the decision in a reply, and returns how many calls were taken.
func (r *Request) parse(reply []byte) (taken int64) {
	if len(reply) < 12 {
		r.err = limiter.ErrReply
		return 0
	}
	now := policyset.TimeAt(reply[5:])
	r.decision, r.err = limiter.ParseReply(reply[4:], r.limits.CountingAt(now).Counted)
	r.limits.AsConfigured(r.decision.Limits, now)
	return int64(binary.BigEndian.Uint32(reply))
}

// addLeft adds the calls left in the lease to what remains of the limits.
func (r *Request) addLeft() {
	for i, u := range r.decision.Limits {
		r.decision.Limits[i] = u.Returned(r.left)
	}
}

// Decision returns the decision about the cost. For a drawn cost that is the decision of
// when the lease was taken, with its times shortened by what passed until now, and with
// what is left of the lease. now is a time of the server.
func (r *Request) Decision(now time.Time) (limiter.Decision, error) {
	if !r.drawn {
		return r.decision, r.err
	}
	r.decision = limiter.Decision{Allowed: true, Now: now, Limits: slices.Clone(r.lease.limits)}
	passed := max(0, now.Sub(r.lease.at))
	for i := range r.decision.Limits {
		u := &r.decision.Limits[i]
		u.Reset = max(0, u.Reset-passed)
		u.Next = max(0, u.Next-passed)
	}
	r.addLeft()
	return r.decision, nil
}
