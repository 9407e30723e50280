package policy

import (
	"context"
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
)

// taken is what a limit's state gave, and would have to be given back.
type taken struct {
	keys    []string // the state's and the bucket's copy's
	program limiter.Program
	at      time.Time
	lot     *lot  // of a share, if it came from one
	first   int32 // index of its limits in Checked.Limits
	count   int32
}

// giveBack returns what was taken for a call that is denied. What cannot be given back stays counted until its window passes, which denies too much
// and never admits too much; so does what was taken by limits that are no longer in force.
func (c *Checker) giveBack(ctx context.Context, checked *Checked) {
	if len(checked.taken) == 0 {
		return
	}
	there := checked.putBack()
	commands := make([]valkey.Completed, len(there))
	for i, t := range there {
		commands[i] = stepScript.command(c.client, t.keys, t.back(checked))
	}
	if len(commands) > 0 {
		for i, result := range c.client.DoMulti(ctx, commands...) {
			if t := there[i]; missing(result.Error()) {
				c.client.Do(ctx, stepScript.whole(c.client, t.keys, t.back(checked)))
			}
		}
	}
	checked.restore()
}

// putBack returns to shares what came from them, as far as they still hold it, and lists the rest, which the store has to be given back.
func (c *Checked) putBack() []taken {
	if !slices.ContainsFunc(c.taken, func(t taken) bool { return t.lot != nil }) {
		return c.taken
	}
	return slices.DeleteFunc(slices.Clone(c.taken), func(t taken) bool { return t.lot != nil && t.lot.putBack(c.Cost) })
}

// back are the arguments of stepScript that give back what the call took.
func (t taken) back(c *Checked) []string { return stepArgs(t.program, -c.Cost, t.at, c.SetVersion) }

// restore counts what was taken as free again.
func (c *Checked) restore() {
	for _, t := range c.taken {
		for i := range t.count {
			u := &c.Limits[t.first+i]
			u.Remaining = min(u.Remaining+c.Cost, u.Limit.Requests)
		}
	}
	c.taken = nil
}
