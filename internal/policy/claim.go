package policy

import (
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
)

// claim is how one call takes from limits that are leased: from the lot that its environment holds, or in a step that asks for the next.
type claim struct {
	side     *side // nil when the step is any other
	cost     int64
	asked    time.Time
	request  request
	drawn    bool // nothing has to be asked
	lot      *lot // that the cost was taken from
	left     int64
	decision limiter.Decision
	err      error
}

// claims are those of the steps on other subjects, in their order; nil when nothing is leased.
type claims []claim

// claim draws from shares what they hold, and makes the other steps on leased limits ask.
func (c *Checker) claim(set *compiledSet, steps []step, cost int64) claims {
	if !set.leases || len(steps) == 0 {
		return nil
	}
	all, now := make(claims, len(steps)), c.now()
	for i := range steps {
		if s := &steps[i]; s.side.leases() {
			all[i] = claim{side: s.side, cost: cost, asked: now, request: request{size: cost, alone: true}}
			all[i].begin(s, set.Version)
		}
	}
	return all
}

func (l *claim) begin(s *step, version int64) {
	if share := l.side.share; share != nil {
		l.lot, l.left, l.request = share.take(l.asked, l.cost)
		if l.drawn = l.lot != nil; l.drawn {
			return
		}
	}
	s.script, s.args = leaseScript, l.args(version)
}

// args are the arguments of leaseScript.
func (l *claim) args(version int64) []string {
	args := stepArgs(l.side.program, l.cost, time.Time{}, version)
	if l.request.unused > 0 {
		args[2] = strconv.FormatInt(l.request.at.UnixMicro(), 10)
	}
	args = append(args, strconv.FormatInt(l.request.size, 10), strconv.FormatInt(l.request.unused, 10))
	if l.side.lapse == nil {
		return append(args, "0", "")
	}
	return append(args, strconv.FormatInt(l.side.lapse.until.UnixMicro(), 10), valkey.BinaryString(l.side.lapse.program))
}

// sent leaves out the steps that are not needed. The first is the caller's.
func (all claims) sent(steps []step) []step {
	if !slices.ContainsFunc(all, func(l claim) bool { return l.drawn }) {
		return steps
	}
	sent := steps[:1:1]
	for i := range all {
		if !all[i].drawn {
			sent = append(sent, steps[i+1])
		}
	}
	return sent
}

// land gives every claim its reply, and returns the replies with empty ones where no step was sent. Without a reply a claim took nothing that is
// known.
func (all claims) land(replies [][]byte) [][]byte {
	if all == nil {
		return replies
	}
	spread := make([][]byte, 1, len(all)+1)
	spread[0], replies = replies[0], replies[1:]
	for i := range all {
		if all[i].drawn {
			spread = append(spread, nil)
			continue
		}
		spread, replies = append(spread, replies[0]), replies[1:]
		if all[i].side != nil {
			all[i].land(spread[i+1])
		}
	}
	return spread
}

func (l *claim) land(reply []byte) {
	taken := l.read(reply)
	if l.side.share == nil {
		return
	}
	if l.err == nil && l.decision.Allowed {
		l.lot = &lot{share: l.side.share, asked: l.asked, at: l.decision.Now, size: taken, left: taken - l.cost}
		l.lot.limits, l.left = slices.Clone(l.decision.Limits), l.lot.left
		l.hold(l.left)
	}
	l.side.share.land(l.request, l.lot)
}

// read reads what leaseScript returns.
func (l *claim) read(reply []byte) (taken int64) {
	switch {
	case string(reply) == "S":
		l.err = errStale
		return 0
	case len(reply) < 12:
		l.err = limiter.ErrReply
		return 0
	}
	now := timeAt(reply[5:])
	l.decision, l.err = limiter.ParseReply(reply[4:], l.side.at(now).counted)
	l.side.tell(l.decision.Limits, now)
	return int64(binary.BigEndian.Uint32(reply))
}

// hold counts what is left in the lot as remaining.
func (l *claim) hold(left int64) {
	for i := range l.decision.Limits {
		u := &l.decision.Limits[i]
		u.Remaining = min(u.Remaining+left, u.Limit.Requests)
	}
}

// draw is the decision about a cost that was drawn: as at the time the lot was taken, but for what passed and was used since.
func (l *claim) draw(now time.Time) {
	l.decision = limiter.Decision{Allowed: true, Now: now, Limits: slices.Clone(l.lot.limits)}
	passed := max(0, now.Sub(l.lot.at))
	for i := range l.decision.Limits {
		l.decision.Limits[i].Reset = max(0, l.decision.Limits[i].Reset-passed)
	}
	l.hold(l.left)
}

// of returns the claim of a step on another subject, nil when that is not leased.
func (all claims) of(i int) *claim {
	if all == nil || all[i].side == nil {
		return nil
	}
	return &all[i]
}
