package simulation

import (
	"slices"
	"time"

	"tidegate/internal/limits"
)

// ledger is a plain list of the calls that the limits of one count admitted, by the time
// that really passed.
type ledger struct {
	shard  int // known from the first answer on
	calls  []call
	copied []call // what the replica has
}

// call is when a call was made, and what it took. Its count took that at an instant between
// the two. It may count for longer by late, since the server's clock has stepped back by as
// much. The count remembers it at least until a time.
type call struct {
	number             int
	began, ended, kept time.Time
	late               time.Duration
	least, most        int64 // what it certainly takes, and perhaps
}

// admit adds a call of a cost, for which limits of these windows and numbers were named.
func (l *ledger) admit(c call, windows []time.Duration, numbers []int64) {
	window, number := slices.Max(windows), slices.Max(numbers)
	for i := range l.calls { // a count keeps what it has for as long as it is asked for
		if old := &l.calls[i]; old.kept.After(c.ended) {
			old.kept = later(old.kept, old.began.Add(window))
		}
	}
	c.kept = c.began.Add(window)
	l.calls = append(l.calls, c)
	for i, after := len(l.calls)-1, int64(0); i >= 0; i-- {
		if after >= number { // what no limit reaches may be merged, and then counts for longer
			for j := range l.calls[:i+1] {
				l.calls[j].ended = later(l.calls[j].ended, l.calls[i].ended)
			}
			return
		}
		after += l.calls[i].least
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// certain returns what a limit of this window certainly counts.
func (l *ledger) certain(window time.Duration, now time.Time) (cost int64) {
	for _, c := range l.calls {
		if c.began.After(now.Add(-window)) && c.kept.After(now) {
			cost += c.least
		}
	}
	return cost
}

// possible returns what a limit of this window counts at most.
func (l *ledger) possible(window time.Duration, now time.Time) (cost int64) {
	for _, c := range l.calls {
		if c.ended.After(now.Add(-window - c.late)) {
			cost += c.most
		}
	}
	return cost
}

// settle moves a call to what it really cost. What is charged counts from now on, and
// certainly only if the settlement is sure.
func (l *ledger) settle(number int, took, cost int64, sure bool, now call) {
	for i := range l.calls {
		if c := &l.calls[i]; c.number == number && cost < took {
			c.least = min(c.least, cost)
			if sure {
				c.most = min(c.most, cost)
			}
		}
	}
	if cost > took {
		if now.most = cost - took; sure {
			now.least = now.most
		}
		l.calls = append(l.calls, now)
	}
}

// reset forgets the calls, but not those from before the clock stepped back: these seem to
// be later than the reset.
func (l *ledger) reset() {
	for _, list := range []*[]call{&l.calls, &l.copied} {
		*list = slices.DeleteFunc(*list, func(c call) bool { return c.late == 0 })
		for i := range *list {
			(*list)[i].least = 0
		}
	}
}

// age makes the calls older, as a clock that steps forward does. One that steps back lets
// them count for longer.
func (l *ledger) age(by time.Duration) {
	for _, list := range [][]call{l.calls, l.copied} {
		for i := range list {
			c := &list[i]
			if by < 0 {
				c.late -= by
				continue
			}
			c.began, c.ended, c.kept = c.began.Add(-by), c.ended.Add(-by), c.kept.Add(-by)
		}
	}
}

// copy remembers what the replica has.
func (l *ledger) copy() { l.copied = slices.Clone(l.calls) }

// forget forgets what the replica does not have.
func (l *ledger) forget() { l.calls = slices.Clone(l.copied) }

// bound is a limit that applies to a call.
type bound struct {
	limits.Limit
	source   string // plan, policy or override
	count    *ledger
	replaced bool // an override takes its place, and it only counts
	cost     int64
	settles  bool // a settlement moves it
}

// applying returns the limits that apply to a call.
func (w *world) applying(c *caller, t target) (all []bound) {
	o := w.overridden(c)
	add := func(list []limits.Limit, source string) {
		for _, l := range list {
			if l.Lifted || l.On != "" && l.On != t.route || l.Who == limits.EachGroup && c.key.Group == "" {
				continue
			}
			b := bound{Limit: l, source: source, cost: 1}
			if l.Unit == limits.Cost && t.route == reports {
				b.cost, b.settles = w.cost, l.Who.OfCaller() || l.Who == limits.EachGroup
			}
			who := map[limits.Who]string{limits.EachGroup: group, limits.EachAddress: t.address.String(),
				limits.EachParam: t.path, limits.CallerParam: c.key.ID + t.path}[l.Who]
			if who == "" && l.Who.OfCaller() {
				who = c.key.ID
			}
			if !l.Who.OfCaller() && source == "plan" {
				who += " of " + c.key.Plan
			}
			b.count = w.count(who + " unit " + l.Unit + " on " + l.On)
			b.replaced = o != nil && source != "override" && l.Who.OfCaller() &&
				(source == "plan" && len(o.limits) == 0 || slices.ContainsFunc(o.limits,
					func(by limits.Limit) bool {
						return by.Unit == l.Unit && by.On == l.On && by.Param == l.Param && !by.Shadow
					}))
			all = append(all, b)
		}
	}
	if o != nil {
		add(o.limits, "override")
	}
	add(w.plans[c.plan], "plan")
	add(w.policy, "policy")
	return all
}

// count returns the ledger of a count.
func (w *world) count(identity string) *ledger {
	if w.counts[identity] == nil {
		w.counts[identity] = &ledger{shard: -1}
	}
	return w.counts[identity]
}

// touched returns the counts that a call touches.
func touched(all []bound) (counts []*ledger) {
	for _, b := range all {
		if !slices.Contains(counts, b.count) {
			counts = append(counts, b.count)
		}
	}
	return counts
}
