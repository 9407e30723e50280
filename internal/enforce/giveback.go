package enforce

import (
	"context"
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/enforce/lease"
	"tidegate/internal/enforce/reservation"
	"tidegate/internal/limiter"
	"tidegate/internal/lua"
)

// taken is what a limit's state gave, and would have to be given back.
type taken struct {
	keys    []string // the state's and the bucket's copy's
	program limiter.Program
	at      time.Time
	lease   *lease.Lease // that the call drew from; nil when the state gave it
	first   int32        // index of its limits in Result.Limits
	count   int32
}

// giveBackTime is the least time that giving back has, so that the end of a call's time
// does not make it lose what it took.
const giveBackTime = 100 * time.Millisecond

// giveBack returns what was taken for a call that is not allowed. What cannot be given
// back stays counted until its window passes, which denies too much and never admits too
// much.
func (a *attempt) giveBack(ctx context.Context, checked *Result) {
	if len(checked.taken) == 0 {
		return
	}
	if end, ends := ctx.Deadline(); ctx.Err() != nil || ends && time.Until(end) < giveBackTime {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
		defer cancel()
	}
	there := checked.putBack()
	commands := make([]valkey.Completed, len(there))
	for i, t := range there {
		commands[i] = stepScript.Command(a.client, t.keys, t.back(checked))
	}
	var newer []taken
	if len(commands) > 0 {
		for i, result := range a.client.DoMulti(ctx, commands...) {
			t := there[i]
			reply, err := result.AsBytes()
			if lua.Unknown(err) {
				reply, _ = a.client.Do(ctx, stepScript.Whole(a.client, t.keys, t.back(checked))).AsBytes()
			}
			if string(reply) == "S" {
				newer = append(newer, t)
				continue
			}
			a.noteGivenBack(checked, t, reply)
		}
	}
	if len(newer) > 0 {
		a.giveBackByNewer(ctx, checked, newer)
	}
	checked.restore()
}

// giveBackByNewer gives back by the Set in force what was taken by an older one, as
// settling a reservation with 0 does. A limit that is no longer in force is given back
// nothing.
func (a *attempt) giveBackByNewer(ctx context.Context, checked *Result, newer []taken) {
	r := a.reserved(checked, newer, a.call, a.rule)
	r.Plan, r.Expires = a.result.plan, a.now().Add(time.Minute)
	s := Settlement{Reserved: r.Cost}
	var set *compiled.Set
	var err error
	if r.Has(reservation.Key) || r.Has(reservation.Route) {
		set, err = a.settleOwn(ctx, &r, &s)
	} else {
		set, err = a.current(ctx, r.Subject)
	}
	if err == nil {
		a.settleShared(ctx, set, &r, &s)
	}
}

// putBack returns what was drawn to the leases that are still held. It lists the rest,
// which has to be given back in Valkey.
func (c *Result) putBack() []taken {
	if !slices.ContainsFunc(c.taken, func(t taken) bool { return t.lease != nil }) {
		return c.taken
	}
	return slices.DeleteFunc(slices.Clone(c.taken), func(t taken) bool {
		return t.lease != nil && t.lease.PutBack(c.Cost)
	})
}

// back are the arguments of stepScript that give back what the call took.
func (t taken) back(c *Result) []string {
	return stepArgs(t.program.Sparing(t.spared(c)), -c.Cost, t.at, c.SetVersion)
}

// spared returns which of the limits gave nothing to the call.
func (t taken) spared(c *Result) byte { return spared(c.Limits[t.first : t.first+t.count]) }

// restore counts what was taken as free again.
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
