package enforce

import (
	"context"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/enforce/reservation"
	"tidegate/internal/limiter"
	"tidegate/internal/lua"
	"tidegate/internal/store"
)

// taken is a cost that one state gave, and what giving it back needs.
type taken struct {
	keys    []string // key of the state, and of the bucket's copy of the plans
	program limiter.Program
	counted limiter.Program // of limits that only count; empty for none
	at      time.Time       // server time
	scope   string          // of its limits
	first   int32           // index of its first limit in Result.Limits
	count   int32           // number of its limits; 0 if they only count
}

// giveBackTime is the least time allowed for giving back, even if the call's own deadline
// is sooner.
const giveBackTime = 100 * time.Millisecond

// giveBack gives back what was taken for a call that is not allowed. A cost that cannot
// be given back stays counted until its window passes: limits then deny too much, but
// never admit too much.
func (a *round) giveBack(ctx context.Context, result *Result) {
	if len(result.taken) == 0 {
		return
	}
	ctx, cancel := store.AtLeast(ctx, giveBackTime)
	defer cancel()
	commands := make([]valkey.Completed, len(result.taken))
	for i, t := range result.taken {
		commands[i] = stepScript.Command(a.client, t.keys, t.refundArgs(result))
	}
	var stale []taken
	for i, response := range a.client.DoMulti(ctx, commands...) {
		t := result.taken[i]
		reply, err := response.AsBytes()
		if lua.Unknown(err) {
			whole := stepScript.Whole(a.client, t.keys, t.refundArgs(result))
			reply, _ = a.client.Do(ctx, whole).AsBytes()
		}
		if string(reply) == "S" {
			stale = append(stale, t)
			continue
		}
		a.recordRefundCrossings(result, t, reply)
	}
	if len(stale) > 0 {
		a.giveBackStale(ctx, result, stale)
	}
	result.restore()
}

// giveBackStale gives back what was taken under an older policy set than the one in
// force. It settles the cost with 0, as that of a reservation. Limits that are no longer
// in force keep the cost.
func (a *round) giveBackStale(ctx context.Context, result *Result, stale []taken) {
	r := a.reserved(result, stale, a.call, a.rule)
	r.Plan, r.Expires = a.result.plan, result.Now.Add(time.Minute) // by the server's clock, as in the script
	s := Settlement{Reserved: r.Cost}
	var set *compiled.Set
	var err error
	if r.Has(reservation.Key) || r.Has(reservation.Route) {
		set, err = a.settleOwn(ctx, &r, &s)
	} else {
		set, err = a.newestSet(ctx, r.Subject)
	}
	if err == nil {
		a.settleShared(ctx, set, &r, &s)
	}
}

// refundArgs returns the arguments of stepScript that give the cost back.
func (t taken) refundArgs(c *Result) []string {
	args := stepArgs(t.program.Sparing(t.spared(c)), -c.Cost, t.at, c.SetVersion)
	return append(args, valkey.BinaryString(t.counted))
}

// spared returns a mask of the limits that the cost was not taken from, as
// limiter.Exceeded does.
func (t taken) spared(c *Result) (mask byte) {
	for i, l := range c.Limits[t.first : t.first+t.count] {
		if l.Exceeded() {
			mask |= 1 << i
		}
	}
	return mask
}

// restore adds the cost back to what remains of the limits that gave it.
func (c *Result) restore() {
	for _, t := range c.taken {
		for i := range t.count {
			if u := &c.Limits[t.first+i].Usage; !u.Exceeded() {
				*u = u.Returned(c.Cost)
			}
		}
	}
	c.taken = nil
}
