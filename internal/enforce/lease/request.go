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

// Request is how one call takes from leased limits: from the lease that its environment
// holds, or in a step that requests the next. Every Request has to be completed, but for
// one that drew its cost. The zero value stands for limits that are not leased.
type Request struct {
	limits   *Limits
	cost     int64
	asked    time.Time
	wanted   wanted
	drawn    bool   // from the held lease
	lease    *Lease // that the cost was taken from
	left     int64
	decision limiter.Decision
	err      error
}

// Request draws a cost from the held lease, or says how to request the next one. It is
// called for a caller who is known to be allowed, or was lately. The limits are leased;
// now is the environment's clock.
func (l *Limits) Request(now time.Time, cost int64) Request {
	r := Request{limits: l, cost: cost, asked: now, wanted: wanted{size: cost, alone: true}}
	if l.pool != nil {
		r.lease, r.left, r.wanted = l.pool.take(now, cost)
		r.drawn = r.lease != nil
	}
	return r
}

// Leased reports whether the limits are leased.
func (r *Request) Leased() bool { return r.limits != nil }

// Drawn reports whether the cost was drawn from the held lease, so that no step is sent.
func (r *Request) Drawn() bool { return r.drawn }

// Lease returns the lease that the cost was taken from, nil when the state gave it.
func (r *Request) Lease() *Lease { return r.lease }

// Args are the arguments of lease.lua, which requests the next lease; version is that of
// the policy set.
func (r *Request) Args(version int64) []string {
	since := "0" // when the calls that are given back were taken
	if r.wanted.unused > 0 {
		since = strconv.FormatInt(r.wanted.at.UnixMicro(), 10)
	}
	until, program := "0", ""
	if s := r.limits.shrinking; s != nil {
		until, program = strconv.FormatInt(s.until.UnixMicro(), 10), valkey.BinaryString(s.Program)
	}
	return []string{
		valkey.BinaryString(r.limits.Program), strconv.FormatInt(r.cost, 10), since,
		strconv.FormatInt(version, 10), strconv.FormatInt(r.wanted.size, 10),
		strconv.FormatInt(r.wanted.unused, 10), until, program,
	}
}

// Complete reads what lease.lua returned. A request without a reply took nothing that is
// known.
func (r *Request) Complete(reply []byte) {
	taken := r.read(reply)
	pool := r.limits.pool
	if pool == nil {
		return
	}
	if r.err == nil && r.decision.Allowed {
		r.lease = &Lease{pool: pool, asked: r.asked, at: r.decision.Now, size: taken, left: taken - r.cost}
		r.lease.limits = slices.Clone(r.decision.Limits)
		r.left = r.lease.left
		r.addLeft()
	}
	pool.complete(r.wanted, r.lease)
}

func (r *Request) read(reply []byte) (taken int64) {
	if len(reply) < 12 {
		r.err = limiter.ErrReply
		return 0
	}
	now := policyset.TimeAt(reply[5:])
	r.decision, r.err = limiter.ParseReply(reply[4:], r.limits.CountingAt(now).Counted)
	r.limits.AsConfigured(r.decision.Limits, now)
	return int64(binary.BigEndian.Uint32(reply))
}

// addLeft counts what is left in the lease as remaining.
func (r *Request) addLeft() {
	for i, u := range r.decision.Limits {
		r.decision.Limits[i] = u.Returned(r.left)
	}
}

// Decision is the decision about the cost. Of a drawn one it is that of the time when the
// lease was taken, less the time that passed until now, by the server's clock, and the
// calls that were drawn since.
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
