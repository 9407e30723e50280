package limiter

import (
	"maps"
	"slices"
)

// name notes the limits of a step other than a look, before its call is added.
func (o *ledger) name(named map[Limit]int64) {
	fresh := map[Limit]bool{}
	for id := range named {
		if _, before := o.named[id]; !before && (id.Shadow || o.least(id) == 0) {
			fresh[id] = true
		}
	}
	at := map[int]int64{} // the latest time at which any limit counts a call
	for _, taken := range o.taken {
		for i, t := range taken {
			at[i] = max(at[i], t)
		}
	}
	for id := range named {
		isNew := func(other Limit) bool { // logs of the same slots are one, which a longer window fills
			longer := other.Window > id.Window
			other.Window = id.Window
			return id.Algorithm == Log && longer && other == id
		}
		if !fresh[id] && !slices.ContainsFunc(slices.Collect(maps.Keys(fresh)), isNew) {
			continue
		}
		if o.taken == nil {
			o.taken = map[Limit]map[int]int64{}
		}
		if o.taken[id] == nil {
			o.taken[id] = map[int]int64{}
		}
		window := id.Span().Microseconds()
		longer := window
		for other := range named {
			if isNew(other) {
				longer = max(longer, other.Span().Microseconds())
			}
		}
		if fresh[id] { // a new log
			window = longer
		}
		o.taken[id][slack] = o.highest
		if earlier, took := at[unknown]; o.now < o.highest || took && earlier > o.now-2*window {
			o.taken[id][unknown] = o.highest
		}
		for i, c := range o.calls {
			if !c.admitted && at[i] == 0 && !c.countedDenied() {
				continue
			}
			if fresh[id] && o.tookOver(id, i) {
				o.taken[id][again-i] = max(at[i], c.highest)
			}
			switch last := max(at[i], c.highest); {
			case last > o.now-2*window:
				o.taken[id][i] = o.highest
			case last > o.now-2*longer: // it counts in the longer window alone, until the clock steps back
				o.taken[id][i] = max(o.taken[id][i], o.highest-window)
			}
		}
	}
	o.named = named
	if o.ever == nil {
		o.ever = map[Limit]int64{}
	}
	maps.Copy(o.ever, named)
}

// tookOver reports whether a shorter window of the slots of a log took over a call.
func (o *ledger) tookOver(id Limit, call int) bool {
	for other, taken := range o.taken {
		shorter := other.Window < id.Window
		other.Window = id.Window
		if _, took := taken[call]; took && shorter && id.Algorithm == Log && other == id {
			return true
		}
	}
	return false
}

// countedDenied reports whether a limit counted the call although it was denied.
func (c madeCall) countedDenied() bool {
	for id := range c.by {
		if id.CountDenied {
			return true
		}
	}
	return false
}

// countedByLog reports whether a limit that shares the slots of a log limit counted the call.
func (c madeCall) countedByLog(id Limit) bool {
	for other := range c.by {
		if other.Window = id.Window; other == id {
			return true
		}
	}
	return false
}

// entry is a call that a limit may count, at the latest time that it may have.
type entry struct{ at, amount int64 }

// most returns what a limit counts at most.
func (o *ledger) most(id Limit) int64 {
	w, entries := id.Window.Microseconds(), o.entries(id)
	total := func(begin, end int64) (count int64) {
		for _, e := range entries {
			if e.at >= begin && e.at < end {
				count += e.amount
			}
		}
		return count
	}
	switch id.Algorithm {
	case Log:
		count := total(o.now-w+1, forever)
		if n := len(entries); n > 0 && entries[n-1].at > o.now-w { // also if it was given back
			count += int64(id.Slots) - 1
		}
		return count
	case TokenBucket:
		full, n := int64(0), id.Requests // when it is full, in microseconds/n
		for _, e := range entries {
			full = max(full, e.at*n) + e.amount*w
		}
		return (max(0, full-o.now*n) + w - 1) / w
	case Counter, FixedWindow:
	}
	begin, _ := period(id, o.now)
	return o.weighted(id, func(from, to int64) int64 {
		if from == begin { // after the clock stepped back, later calls count too
			to = forever
		}
		return total(from, to)
	})
}

// entries returns the calls that a limit may count, in the order of their times.
func (o *ledger) entries(id Limit) (entries []entry) {
	for i, c := range o.calls {
		taken, took := o.taken[id][i]
		if c.admitted || took || id.CountDenied && c.countedByLog(id) {
			more := amount(id, c.cost, 1)
			for _, r := range o.refunds {
				exact := r.exact && !id.CountDenied && id.Algorithm != TokenBucket
				if _, given := r.by[id]; given && r.call == i && exact {
					more -= amount(id, r.cost, r.ones)
				}
			}
			entries = append(entries, entry{max(c.highest, taken), more})
			if at, twice := o.taken[id][again-i]; twice {
				entries = append(entries, entry{at, amount(id, c.cost, 1)})
			}
		}
	}
	if at, took := o.taken[id][unknown]; took {
		entries = append(entries, entry{at, MaxRequests})
	}
	if at, took := o.taken[id][slack]; took {
		for other := range o.ever {
			entries = append(entries, entry{at, max(0, int64(other.Slots)-1)})
		}
	}
	for _, r := range o.refunds {
		entries = append(entries, entry{r.highest, 0})
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return int(max(-1, min(1, a.at-b.at))) })
	return entries
}
