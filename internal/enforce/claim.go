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

// claim is how one call takes from limits that are leased: from the lot that its
// environment holds, or in a step that asks for the next.
type claim struct {
	shared   *sharedLimit // nil when the step is any other
	cost     int64
	asked    time.Time
	request  request
	drawn    bool // nothing has to be asked
	lot      *lot // that the cost was taken from
	left     int64
	decision limiter.Decision
	err      error
}

// claims are those of the steps on shared limits, in their order; nil when nothing is
// leased.
type claims []claim

// claim draws from shares what they hold, and makes the other steps on leased limits ask.
// It is called for a caller who is known to be allowed, or was lately. Every request that
// it makes is answered by complete.
func (c *Checker) claim(set *compiledSet, steps []step, cost int64) claims {
	if !set.leases || len(steps) == 0 {
		return nil
	}
	all, now := make(claims, len(steps)), c.now()
	for i := range steps {
		if s := &steps[i]; s.shared.leases() {
			all[i] = claim{shared: s.shared, cost: cost, asked: now, request: request{size: cost, alone: true}}
			all[i].begin(s, set.Version)
		}
	}
	return all
}

func (l *claim) begin(s *step, version int64) {
	if share := l.shared.share; share != nil {
		l.lot, l.left, l.request = share.take(l.asked, l.cost)
		if l.drawn = l.lot != nil; l.drawn {
			return
		}
	}
	s.script, s.args = leaseScript, l.args(version)
}

// args are the arguments of leaseScript.
func (l *claim) args(version int64) []string {
	args := stepArgs(l.shared.program, l.cost, time.Time{}, version)
	if l.request.unused > 0 {
		args[2] = strconv.FormatInt(l.request.at.UnixMicro(), 10)
	}
	args = append(args, strconv.FormatInt(l.request.size, 10), strconv.FormatInt(l.request.unused, 10))
	if l.shared.lapse == nil {
		return append(args, "0", "")
	}
	return append(args, strconv.FormatInt(l.shared.lapse.until.UnixMicro(), 10), valkey.BinaryString(l.shared.lapse.program))
}

// sent leaves out the steps that are not needed.
func (all claims) sent(steps []step) []step {
	if !slices.ContainsFunc(all, func(l claim) bool { return l.drawn }) {
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

// complete gives every claim its reply, and returns the replies with empty ones where no
// step was sent. Without a reply a claim took nothing that is known.
func (all claims) complete(replies []stepReply) []stepReply {
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

func (l *claim) complete(reply []byte) {
	taken := l.read(reply)
	if l.shared.share == nil {
		return
	}
	if l.err == nil && l.decision.Allowed {
		l.lot = &lot{share: l.shared.share, asked: l.asked, at: l.decision.Now, size: taken, left: taken - l.cost}
		l.lot.limits, l.left = slices.Clone(l.decision.Limits), l.lot.left
		l.hold(l.left)
	}
	l.shared.share.land(l.request, l.lot)
}

// read reads what leaseScript returns.
func (l *claim) read(reply []byte) (taken int64) {
	switch {
	case string(reply) == "S":
		l.err = ErrStale
		return 0
	case len(reply) < 12:
		l.err = limiter.ErrReply
		return 0
	}
	now := policyset.TimeAt(reply[5:])
	l.decision, l.err = limiter.ParseReply(reply[4:], l.shared.at(now).counted)
	l.shared.tell(l.decision.Limits, now)
	return int64(binary.BigEndian.Uint32(reply))
}

// hold counts what is left in the lot as remaining.
func (l *claim) hold(left int64) {
	for i := range l.decision.Limits {
		u := &l.decision.Limits[i]
		addRemaining(u, left)
	}
}

// draw is the decision about a cost that was drawn: as at the time the lot was taken, but
// for what passed and was used since.
func (l *claim) draw(now time.Time) {
	l.decision = limiter.Decision{Allowed: true, Now: now, Limits: slices.Clone(l.lot.limits)}
	passed := max(0, now.Sub(l.lot.at))
	for i := range l.decision.Limits {
		u := &l.decision.Limits[i]
		u.Reset = max(0, u.Reset-passed)
		u.Next = max(0, u.Next-passed)
	}
	l.hold(l.left)
}

// of returns the claim of a step on a shared limit, nil when that is not leased.
func (all claims) of(i int) *claim {
	if all == nil || all[i].shared == nil {
		return nil
	}
	return &all[i]
}
