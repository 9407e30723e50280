package limiter

import (
	"slices"
	"time"
)

// ledger is an oracle for limits that change: the plain list of a subject's calls. It
// bounds what a limit may count from below and above, and shares no code with the model.
//
// From below, a limit counts the calls made while it was in force, only counted or in
// shadow mode. It is the same limit while its algorithm, window or calendar and its calls
// per slot are the same; a token bucket also while its requests are. From above, it counts
// all calls, whatever was in force, and this slack:
//
//	log, grouped slots  the calls of a slot less one: a slot counts until its latest call leaves
//	log, countDenied    denied calls that any such limit of the same slots counted
//	counter             the previous window, weighted by its overlap
//	new limit           calls of the last two windows, as if made now, also denied ones that a
//	                    limit counted, and the calls of a slot of every log so far. A limit is
//	                    new if the step before did not name it and it need not count anything.
//	                    A longer window also makes the shorter ones of the same slots new.
//	                    Calls that these took over count twice, and older ones count in
//	                    these if the clock steps back
//	refund              nothing is given back if the Decision has Unreturned, by a bucket, or if
//	                    the clock stepped back since the call
//	clock stepped back  a call counts as made at the latest time seen until then, a new limit may
//	                    count more, and a counter or fixed window may forget what it counted
//	                    before it went back a window
//	above the limit     a limit that does not deny counts no more calls than its requests,
//	                    a bucket twice as many, but a refund takes the others first; refunds
//	                    of slots that hold several calls may be of later calls
type ledger struct {
	now     int64 // the server's time (microseconds since start)
	highest int64 // the latest of these times
	elapsed int64 // how far the clock has moved forward
	backs   []stepBack
	calls   []madeCall
	refunds []madeRefund
	named   map[Limit]int64         // the limits of the latest step
	ever    map[Limit]int64         // the limits of all steps
	taken   map[Limit]map[int]int64 // when a limit took over a call
}

type stepBack struct {
	from, to int64
	calls    int // made before
}

type madeCall struct {
	at, highest, elapsed int64
	cost                 int64
	admitted             bool
	limits               []Limit
	by                   map[Limit]int64 // limits that counted it, with their largest requests then
}

type madeRefund struct {
	call, calls int // the refunded call; the number of calls made before the refund
	elapsed     int64
	highest     int64 // a bucket that is full is then full from this time on
	cost, ones  int64 // given back to limits of cost and of calls
	by          map[Limit]int64
	exact       bool
}

// unknown stands for a number of calls that a limit took over while the clock had stepped
// back: the debt of a bucket is then too large.
const unknown = -1

// slack stands for the calls of a slot of every log so far.
const slack = -2

// again - i stands for call i, which a log counts twice.
const again = -3

// same returns what makes a limit the same.
func same(l Limit) Limit {
	id := Limit{Window: l.Window, Algorithm: l.Algorithm, CountDenied: l.CountDenied, Calls: l.Calls,
		Calendar: l.Calendar, Zone: l.Zone}
	switch l.Algorithm {
	case TokenBucket:
		id.Requests = l.Requests
	case Log:
		id.Slots = int(l.group())
	case Counter, FixedWindow:
	}
	return id
}

// names returns the identities of limits and of those that only count, with their largest
// requests. A limit in shadow mode has two: calls that exceed it count only on the one
// without Shadow.
func names(limits, counted []Limit) map[Limit]int64 {
	all := map[Limit]int64{}
	for i, list := range [][]Limit{limits, counted} {
		for _, l := range list {
			id := same(l)
			all[id] = max(all[id], l.Requests)
			if id.Shadow = true; l.Shadow && i == 0 {
				all[id] = l.Requests
			}
		}
	}
	return all
}

// move sets the clock.
func (o *ledger) move(now int64) {
	if now < o.now {
		o.backs = append(o.backs, stepBack{o.now, now, len(o.calls)})
	} else {
		o.elapsed += now - o.now
	}
	o.now, o.highest = now, max(o.highest, now)
}

// amount returns what a call of a cost counts on a limit.
func amount(id Limit, cost, ones int64) int64 {
	if id.Calls {
		return ones
	}
	return cost
}

// period returns the start and the end of the window of an aligned limit at a time.
func period(id Limit, at int64) (begin, end int64) {
	if id.Calendar == NoCalendar {
		w := id.Window.Microseconds()
		begin = (at+epoch)/w*w - epoch
		return begin, begin + w
	}
	zone, _ := time.LoadLocation(id.Zone)
	t := time.UnixMicro(epoch + at).In(zone)
	year, month, day := t.Date()
	hour, minute := 0, 0
	var next time.Time
	switch id.Calendar {
	case Minute:
		hour, minute = t.Hour(), t.Minute()
		next = time.Date(year, month, day, hour, minute+1, 0, 0, zone)
	case Hour:
		hour = t.Hour()
		next = time.Date(year, month, day, hour+1, 0, 0, 0, zone)
	default:
		next = time.Date(year, month, day+1, 0, 0, 0, 0, zone)
	}
	return time.Date(year, month, day, hour, minute, 0, 0, zone).UnixMicro() - epoch, next.UnixMicro() - epoch
}

// weighted returns the count of a counter or a fixed window.
func (o *ledger) weighted(id Limit, count func(begin, end int64) int64) int64 {
	begin, end := period(id, o.now)
	cur := count(begin, end)
	if id.Algorithm == FixedWindow {
		return cur
	}
	w := end - begin
	return cur + (count(begin-w, begin)*(end-o.now)+w-1)/w
}

// least returns what a limit counts at least.
func (o *ledger) least(id Limit) int64 {
	switch id.Algorithm {
	case Log:
		return o.leastLog(id)
	case TokenBucket:
		return o.leastBucket(id)
	case Counter, FixedWindow:
	}
	return max(0, o.weighted(id, func(begin, end int64) (count int64) {
		for i, c := range o.calls {
			_, counted := c.by[id]
			if counted && c.admitted && c.at >= begin && c.at < end && !o.wentBack(id, i) {
				count += amount(id, c.cost, 1)
			}
		}
		for _, r := range o.refunds {
			if _, counted := r.by[id]; counted && o.calls[r.call].at >= begin && o.calls[r.call].at < end {
				count -= amount(id, r.cost, r.ones)
			}
		}
		return max(0, count)
	}))
}

// wentBack reports whether the clock stepped back to an earlier window since call i.
func (o *ledger) wentBack(id Limit, i int) bool {
	return slices.ContainsFunc(o.backs, func(b stepBack) bool {
		from, _ := period(id, b.from)
		to, _ := period(id, b.to)
		return b.calls > i && from != to
	})
}

func (o *ledger) leastLog(id Limit) (count int64) {
	w, refunds := id.Window.Microseconds(), o.refunds
	total := int64(0) // however many calls the limit has
	giveBack := func(calls int) {
		for ; len(refunds) > 0 && refunds[0].calls <= calls && !id.CountDenied; refunds = refunds[1:] {
			r := refunds[0]
			since := o.calls[r.call].elapsed
			if id.Slots > 1 { // calls of later slots may have been removed
				since = r.elapsed
			}
			if r.fromLog(id) && o.elapsed-since < w {
				total = max(0, total-amount(id, r.cost, r.ones))
				count = min(count, total)
			}
		}
	}
	for i, c := range o.calls {
		giveBack(i)
		requests, counted := c.by[id]
		if counted && (c.admitted || id.CountDenied) && o.elapsed-c.elapsed < w {
			total += amount(id, c.cost, 1)
			count = max(count, min(count+amount(id, c.cost, 1), requests))
		}
	}
	giveBack(len(o.calls))
	return count
}

// fromLog reports whether a refund took from the log that a limit shares with others: the
// list that named one of them gave the call back.
func (r madeRefund) fromLog(id Limit) bool {
	for l := range r.by {
		if l.Algorithm == Log && !l.CountDenied && l.Calls == id.Calls && l.Slots == id.Slots {
			return true
		}
	}
	return false
}

func (o *ledger) leastBucket(id Limit) int64 {
	w, n := id.Window.Microseconds(), id.Requests
	debt, last, r := int64(0), int64(0), 0 // in microseconds/n
	total := int64(0)                      // however many calls it has
	drain := func(elapsed int64) {
		if debt, total, last = debt-(elapsed-last)*n, total-(elapsed-last)*n, elapsed; debt <= 0 {
			debt, total = 0, 0
		}
	}
	giveBack := func(calls int) {
		for ; r < len(o.refunds) && o.refunds[r].calls <= calls; r++ {
			drain(o.refunds[r].elapsed)
			if _, counted := o.refunds[r].by[id]; counted {
				total = max(0, total-amount(id, o.refunds[r].cost, o.refunds[r].ones)*w)
				debt = min(debt, total)
			}
		}
	}
	for i, c := range o.calls {
		giveBack(i)
		if _, counted := c.by[id]; counted && c.admitted {
			drain(c.elapsed)
			total += amount(id, c.cost, 1) * w
			debt = max(debt, min(debt+amount(id, c.cost, 1)*w, 2*n*w))
		}
	}
	giveBack(len(o.calls))
	drain(o.elapsed)
	return (debt + w - 1) / w
}
