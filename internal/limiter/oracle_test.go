package limiter

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// The oracle of this file knows nothing of states: it has a plain list of what was counted
// for each count, and says by brute force what is right.

const second = int64(time.Second / time.Microsecond)

// base is when histories begin.
const base = 1_764_205_000 * second

// wrong is what an engine did that the oracle does not accept.
type wrong struct{ text string }

func fail(format string, args ...any) { panic(wrong{fmt.Sprintf(format, args...)}) }

// event is something that was counted. After the clock stepped back, what a settlement
// charged may count from one of several instants: at is the earliest, late the latest.
type event struct{ at, late, cost, until int64 }

// ledger is what was counted on one count, with one fate and, for other algorithms than
// log, one window.
type ledger struct {
	events []*event
	named  []naming
	rounds []naming // each take, with the largest number that a log must remember then
	back   []naming // each give-back
	level  int64    // what a token bucket holds at its last event, times its window
	first  int64    // the first event since it was last empty for two windows, or reset
	last   int64    // the last event
}

type naming struct{ at, number, window int64 }

// ledgerID is what limits must have in common to count together.
type ledgerID struct {
	count     string
	fate      Fate
	algorithm Algorithm
	window    time.Duration
	calendar  Calendar
	owner     string
}

func idOf(a Applied, fate Fate) ledgerID {
	id := ledgerID{count: a.Count, fate: fate, algorithm: a.Limit.Algorithm}
	if id.algorithm != Log {
		id.window, id.calendar = a.Limit.Window, a.Limit.Calendar
	}
	if id.algorithm == TokenBucket {
		id.owner = a.Owner
	}
	return id
}

func fateOf(l Limit) (f Fate) {
	if l.CountDenied {
		f |= Attempts
	}
	if l.Shadow {
		f |= Shadow
	}
	return f
}

type oracle struct {
	sizes
	ledgers map[ledgerID]*ledger
	peak    int64 // the latest that the clock ever was
	back    bool  // the clock stepped back at some time
	reset   int64
	periods calendarOf
}

func (o *oracle) ledger(id ledgerID) *ledger {
	if o.ledgers[id] == nil {
		o.ledgers[id] = &ledger{}
	}
	return o.ledgers[id]
}

// known reports whether an event must be known: a list that it named has not ended.
func (o *oracle) known(e *event, now int64) bool { return e.until > max(now, o.peak) }

// must and may bound what counts in a window.
func (o *oracle) bounds(l *ledger, window, now int64) (must, may, all int64) {
	for _, e := range l.events {
		if e.at > now-window && o.known(e, now) {
			must += e.cost
		}
		if e.late > now-window {
			may += e.cost
		}
		all += e.cost
	}
	return must, may, all
}

// exact reports whether a log of this ledger must answer exactly for a number, because
// nothing that counts for it can have been merged. fine reports whether what was merged
// stands for at most a part of what came after it.
func (o *oracle) exact(l *ledger, n, window, now int64) (exact, fine bool) {
	least, given := int64(math.MaxInt64), int64(0)
	for _, r := range l.rounds {
		if r.at > now-window {
			least = min(least, r.number)
		}
	}
	for _, b := range l.back {
		if b.at > now-window {
			given += b.number
		}
	}
	return n <= min(least, int64(2*o.part))-given, n <= least && given == 0
}

// name notes that a list with this number and window took from the count.
func (o *oracle) name(l *ledger, number, window, now int64) {
	for _, e := range l.events {
		if o.known(e, now) {
			e.until = max(e.until, e.at+window)
		}
	}
	l.named = append(l.named, naming{now, number, window})
	least := int64(0)
	for _, n := range l.named {
		if now-n.at < n.window {
			least = max(least, n.number)
		}
	}
	l.rounds = append(l.rounds, naming{now, least, 0})
}

// earliest returns the first instant, from now on, at which a cost fits. With certain set
// it goes by what must be known, else by all that may be.
func (o *oracle) earliest(l *ledger, r Rate, cost, now int64, certain bool) int64 {
	type end struct{ at, cost int64 }
	var ends []end
	for _, e := range l.events {
		if certain && o.known(e, now) {
			ends = append(ends, end{min(e.at+r.Window, e.until), e.cost})
		}
		if !certain {
			ends = append(ends, end{e.late + r.Window, e.cost})
		}
	}
	slices.SortFunc(ends, func(a, b end) int { return int(min(max(a.at-b.at, -1), 1)) })
	left, at := r.Number-cost, now
	for i := len(ends) - 1; i >= 0; i-- {
		if left -= ends[i].cost; left < 0 {
			at = max(now, ends[i].at)
			break
		}
	}
	return at
}

// check compares an answer about a log with the list. fits is whether the answer says that
// the cost fits now.
func (o *oracle) checkLog(l *ledger, r Rate, cost int64, u Usage, d Decision, waits bool,
	what string) {
	now := d.At.UnixMicro()
	must, may, all := o.bounds(l, r.Window, now)
	exact, fine := o.exact(l, r.Number, r.Window, now)
	used := r.Number - u.Remaining + u.Owed
	most := all
	if may < r.Number && exact {
		most = may
	} else if may < r.Number && fine {
		most = may + (r.Number-1)/int64(o.part)
	}
	if used < must || used > most {
		fail("%s: %d used, right is %d to %d", what, used, must, may)
	}
	o.checkWait(l, r, max(0, r.Number-used)+1, u.Next, used == 0, exact, d, what+": next")
	if cost > r.Number != u.Never {
		fail("%s: never is %t for %d of %d", what, u.Never, cost, r.Number)
	}
	if waits && !u.Never {
		o.checkWait(l, r, cost, u.RetryAfter, u.RetryAfter == 0, exact, d, what+": retry after")
	}
}

// checkWait compares a time until a cost fits with the list; now says that it is none.
func (o *oracle) checkWait(l *ledger, r Rate, cost int64, wait time.Duration, fits, exact bool, d Decision,
	what string) {
	if cost > r.Number {
		return
	}
	now, clock := d.At.UnixMicro(), d.Now.UnixMicro()
	low, high := o.earliest(l, r, cost, now, true), o.earliest(l, r, cost, now, false)
	at := clock + wait.Microseconds()
	if fits {
		at = now
	}
	ended := o.back && at < now // the log ends before the clock has caught up
	if at < low && !ended {
		fail("%s is %s: too early, right is %s", what, wait, time.Duration(low-clock)*time.Microsecond)
	}
	if exact && at > high {
		fail("%s is %s: too late, right is %s", what, wait, time.Duration(high-clock)*time.Microsecond)
	}
}

// period returns the window or period of a fixed window or counter that contains now.
func (o *oracle) period(id ledgerID, now int64) (start, end int64) {
	if id.calendar == NoCalendar {
		w := id.window.Microseconds()
		return now / w * w, (now/w + 1) * w
	}
	return o.periods.around(now)
}

// usedSmall returns what a counter, token bucket or fixed window has used at an instant,
// in parts of 1/window. More events may follow.
func (o *oracle) usedSmall(id ledgerID, l *ledger, n, now int64) (used, parts int64) {
	w := id.window.Microseconds()
	switch id.algorithm {
	case TokenBucket:
		if now-l.last >= 2*w {
			return 0, w
		}
		return max(0, l.level-(now-l.last)*n), w
	case Counter:
		start, end := o.period(id, now)
		for _, e := range l.events {
			if e.at >= start {
				used += e.cost * w
			} else if e.at >= start-w {
				used += e.cost * (end - now)
			}
		}
		return used, w
	case FixedWindow, Log:
	}
	start, _ := o.period(id, now)
	for _, e := range l.events {
		if e.at >= start {
			used += e.cost
		}
	}
	return used, 1
}

// checkSmall compares an answer about a small state with the list.
func (o *oracle) checkSmall(id ledgerID, l *ledger, r Rate, cost int64, u Usage, d Decision, waits bool,
	what string) {
	now, clock := d.At.UnixMicro(), d.Now.UnixMicro()
	left := func(at int64) int64 {
		used, parts := o.usedSmall(id, l, r.Number, at)
		return r.Number - (used+parts-1)/parts
	}
	if got := u.Remaining - u.Owed; got != left(now) {
		fail("%s: %d left, right is %d", what, got, left(now))
	}
	if cost > r.Number != u.Never {
		fail("%s: never is %t for %d of %d", what, u.Never, cost, r.Number)
	}
	exactly := func(want int64, wait time.Duration, what string) {
		at := clock + wait.Microseconds()
		if at <= now || left(at) < want || left(at-1) >= want {
			fail("%s is %s: %d left then and %d before, %d wanted", what, wait, left(at), left(at-1), want)
		}
	}
	if left(now) == r.Number != (u.Next == 0) {
		fail("%s: next is %s with %d left", what, u.Next, left(now))
	}
	if u.Next > 0 {
		exactly(max(left(now), 0)+1, u.Next, what+": next")
	}
	if !waits || u.Never {
		return
	}
	if cost <= left(now) != (u.RetryAfter == 0) {
		fail("%s: retry after is %s with %d left of %d wanted", what, u.RetryAfter, left(now), cost)
	}
	if u.RetryAfter > 0 {
		exactly(cost, u.RetryAfter, what+": retry after")
	}
}

// call is a call that can be settled.
type call struct {
	limits     []Applied
	settlement Settlement
	events     map[ledgerID]*event
	settled    bool
}

// decided checks a decision and notes what it counted.
func (o *oracle) decided(limits []Applied, d Decision, clock int64, takes bool) call {
	now := d.At.UnixMicro()
	o.checkInstant(limits, now, clock)
	for _, a := range limits {
		for _, fate := range []Fate{0, fateOf(a.Limit)} {
			id := idOf(a, fate)
			l, end := o.ledger(id), o.ledger(id).last+2*a.Limit.Span().Microseconds()
			if id.algorithm != Log && l.last > 0 && clock < end && end <= o.peak {
				panic(void{}) // it ended when the clock was ahead
			}
		}
	}
	c := call{limits: limits, events: map[ledgerID]*event{}, settlement: d.Settle()}
	// Before the call is counted: whether it may pass, and must.
	mayPass, mustPass := true, true
	shadows := map[ledgerID][2]bool{}
	for i, a := range limits {
		fate := fateOf(a.Limit)
		if a.Replaced || a.Cost == 0 {
			continue
		}
		may, must := o.fits(idOf(a, fate), a, now)
		if a.Limit.Shadow {
			id := idOf(a, fate)
			both, ok := shadows[id]
			shadows[id] = [2]bool{(both[0] || !ok) && may, (both[1] || !ok) && must}
			continue
		}
		if d.Allowed && !may {
			fail("limit %d (%v, %s): the call passed without room", i, a.Limit, a.Limit.Algorithm)
		}
		mayPass, mustPass = mayPass && may, mustPass && must
	}
	if !d.Allowed && mustPass {
		fail("the call is denied, but every limit has room")
	}
	if takes {
		o.count(limits, d, now, shadows, c)
	}
	for i, a := range limits {
		if a.Replaced {
			continue
		}
		if a.Cost == 0 {
			if d.Limits[i].Denies() {
				fail("limit %d denies a cost of 0", i)
			}
			continue
		}
		id := idOf(a, fateOf(a.Limit))
		what := fmt.Sprintf("limit %d (%v, %s)", i, a.Limit, a.Limit.Algorithm)
		r := Rate{a.Limit.Requests, a.Limit.Span().Microseconds()}
		u, waits := d.Limits[i], !d.Allowed
		if took := c.events[id] != nil; a.Limit.Shadow && d.Allowed {
			if took && !a.Limit.CountDenied && u.Denies() {
				fail("%s: it counted what it denies", what)
			}
			waits = !took || a.Limit.CountDenied && (u.RetryAfter > 0 || !shadows[id][0])
		}
		o.checkAnswer(id, r, a.Cost, u, d, waits, what)
	}
	if !d.Allowed && d.Binding() < 0 {
		fail("the call is denied, but no limit says so")
	}
	return c
}

func (o *oracle) checkAnswer(id ledgerID, r Rate, cost int64, u Usage, d Decision, waits bool,
	what string) {
	if id.algorithm == Log {
		o.checkLog(o.ledger(id), r, cost, u, d, waits, what)
	} else {
		o.checkSmall(id, o.ledger(id), r, cost, u, d, waits, what)
	}
}

// fits returns whether a cost may fit a limit, and whether it must.
func (o *oracle) fits(id ledgerID, a Applied, now int64) (may, must bool) {
	l, n := o.ledger(id), a.Limit.Requests
	if a.Cost > n {
		return false, false
	}
	if id.algorithm != Log {
		used, parts := o.usedSmall(id, l, n, now)
		fits := (used+parts-1)/parts+a.Cost <= n
		return fits, fits
	}
	window := a.Limit.Window.Microseconds()
	least, most, all := o.bounds(l, window, now)
	if exact, fine := o.exact(l, n, window, now); !exact && fine {
		most = min(all, most+(n-1)/int64(o.part))
	} else if !exact {
		most = all
	}
	return least+a.Cost <= n, most+a.Cost <= n
}

// checkInstant checks that the instant of a call is the latest of the clock, the reset and
// what its counts know.
func (o *oracle) checkInstant(limits []Applied, now, clock int64) {
	low, high := max(clock, o.reset+1), max(clock, o.reset+1)
	for _, a := range limits {
		for _, fate := range []Fate{0, fateOf(a.Limit)} {
			l := o.ledger(idOf(a, fate))
			for _, e := range l.events {
				high = max(high, e.late)
				if o.known(e, clock) && e.cost > 0 {
					low = max(low, e.at)
				}
			}
			high = max(high, l.last)
		}
	}
	if now < low || now > high {
		fail("the instant is %d after the clock, right is %d to %d", now-clock, low-clock, high-clock)
	}
}

// count notes what a step counts.
func (o *oracle) count(limits []Applied, d Decision, now int64, shadows map[ledgerID][2]bool, c call) {
	type list struct{ number, window, cost int64 }
	lists := map[ledgerID]list{}
	bucket := map[ledgerID]int64{}
	for _, a := range limits {
		for _, fate := range []Fate{0, fateOf(a.Limit)} {
			id := idOf(a, fate)
			p := lists[id]
			window := max(p.window, a.Limit.Span().Microseconds())
			lists[id] = list{max(p.number, a.Limit.Requests), window, a.Cost}
			bucket[id] = a.Limit.Requests
		}
	}
	taken := map[string]bool{}
	for _, p := range d.Taken {
		taken[p.Key] = true
	}
	for id, p := range lists {
		if p.cost == 0 {
			continue
		}
		counts := d.Allowed || id.fate&Attempts != 0
		if id.fate == Shadow {
			key := keyOf(limits, id)
			if may, asked := shadows[id], d.Allowed; asked {
				_, named := shadows[id]
				if named && taken[key] && !may[0] || !taken[key] && (may[1] || !named) {
					fail("a shadow log of %s took it: %t", id.count, taken[key])
				}
			}
			counts = d.Allowed && taken[key]
		}
		if !counts {
			continue
		}
		l := o.ledger(id)
		if id.algorithm == TokenBucket {
			used, _ := o.usedSmall(id, l, p.number, now)
			l.level = used + p.cost*p.window
		}
		l.begin(now, p.window, d.Now.UnixMicro())
		o.name(l, p.number, p.window, now)
		e := &event{now, now, p.cost, now + p.window}
		l.events = append(l.events, e)
		c.events[id] = e
	}
}

// begin notes an event of a state that may have ended before.
func (l *ledger) begin(now, window, clock int64) {
	if l.first == 0 || l.last+2*window <= clock {
		l.first = now
	}
	l.last = now
}

// keyOf returns the key of a ledger, to find it among the states that took a cost.
func keyOf(limits []Applied, id ledgerID) string {
	for _, a := range limits {
		if idOf(a, id.fate) == id {
			return a.key(id.fate)
		}
	}
	return ""
}

// forget notes a reset. What was counted at later instants, before the clock stepped
// back, may go on counting.
func (o *oracle) forget(at int64) {
	o.reset = at
	for id, l := range o.ledgers {
		ahead := slices.ContainsFunc(l.events, func(e *event) bool { return e.late > at })
		if id.algorithm == Log && ahead {
			for _, e := range l.events {
				e.until = 0
			}
			l.back = append(l.back, naming{o.peak, 1 << 40, 0})
		} else if id.algorithm == Log {
			l.events = nil
		}
		if id.algorithm != Log && l.first <= at { // it goes whole
			*l = ledger{last: l.last}
		}
	}
}

// settled checks what a settlement gave back, and notes it.
func (o *oracle) settled(c *call, s Settlement, reply []int64, clock int64) {
	now := max(clock, o.reset+1)
	low, high := now, now
	for _, change := range s.Changes {
		l := o.ledger(c.idOf(change.Key))
		for _, e := range l.events {
			high = max(high, e.late)
			if o.known(e, now) && e.cost > 0 {
				low = max(low, e.at)
			}
		}
		high = max(high, l.last)
	}
	for i, change := range s.Changes {
		id := c.idOf(change.Key)
		l, e := o.ledger(id), c.events[id]
		if change.By > 0 {
			o.charge(id, l, change, low, high, clock)
			continue
		}
		asked, got := -change.By, reply[i]
		if got < 0 || got > asked {
			fail("%s gave back %d of %d", change.Key, got, asked)
		}
		if got > 0 && !slices.Contains(l.events, e) {
			if o.back {
				panic(void{})
			}
			fail("%s gave back %d of a call that it does not count", change.Key, got)
		}
		if id.algorithm == TokenBucket {
			o.drained(l, change, s.At, clock, asked, got)
			continue
		}
		known := slices.Contains(l.events, e) && o.known(e, clock)
		if got < asked && !o.back && known && id.algorithm == Log {
			fail("%s gave back %d of %d, although it must know the call", change.Key, got, asked)
		}
		if id.algorithm != Log && s.At > o.reset {
			start, _ := o.period(id, now)
			if got < asked && s.At >= start && !o.back {
				fail("%s gave back %d of %d in its window", change.Key, got, asked)
			}
		}
		if e.cost -= got; e.cost < 0 {
			fail("%s gave back more than the call cost", change.Key)
		}
		if got > 0 {
			l.back = append(l.back, naming{now, got, 0})
		}
	}
}

// void ends a history whose clock stepped back over the end of a log: instants came twice,
// and nothing is promised for their refunds.
type void struct{}

// charge notes what a settlement charged at an instant from low to high.
func (o *oracle) charge(id ledgerID, l *ledger, c Change, low, high, clock int64) {
	if id.algorithm != Log && high > low {
		panic(void{})
	}
	if id.algorithm == TokenBucket {
		used, _ := o.usedSmall(id, l, c.Number, low)
		l.level = used + c.By*c.Window
	}
	l.begin(high, c.Window, clock)
	o.name(l, c.Number, c.Window, low)
	l.rounds = l.rounds[:len(l.rounds)-1] // a settlement rewrites nothing
	l.events = append(l.events, &event{low, high, c.By, low + c.Window})
}

// drained checks what a token bucket gave back: what cannot have drained from the call to
// the latest one, rounded up.
func (o *oracle) drained(l *ledger, c Change, at, clock, asked, got int64) {
	right := max(0, min(asked*c.Window-max(0, l.last-at)*c.Number, l.level))
	if at <= o.reset || at < l.first || clock-l.last >= 2*c.Window {
		right = 0
	}
	if rounded := (right + c.Window - 1) / c.Window; got != rounded && !o.back {
		fail("%s gave back %d of %d, right is %d", c.Key, got, asked, rounded)
	}
	l.level -= right
}

func (c *call) idOf(key string) ledgerID {
	for id := range c.events {
		if keyOf(c.limits, id) == key {
			return id
		}
	}
	fail("%s took the call, but counts none of its limits", key)
	return ledgerID{}
}

// op is one operation of a history.
type op struct {
	kind   string // call, look, wait, clock, reset, settle
	plan   int
	by     int64 // of wait and clock: microseconds; of settle: what the call costs more
	all    bool  // of settle: the whole cost is given back
	call   int   // of settle
	cost   map[string]int64
	record bool // of call: its settlement has a record, and is tried twice
	skew   int64
}

// history is a list of operations under plans: lists of limits that are in force in turn.
type history struct {
	sizes
	plans   [][]Applied
	ops     []op
	periods calendarOf
}

// calendarOf is a calendar whose periods have these lengths in turn.
type calendarOf []int64

// around returns the period that contains an instant.
func (c calendarOf) around(at int64) (start, end int64) {
	sum := int64(0)
	for _, length := range c {
		sum += length
	}
	start = at / sum * sum
	for i := 0; ; i++ {
		if end = start + c[i]; end > at {
			return start, end
		}
		start = end
	}
}

// draw draws a history.
func draw(r *rand.Rand, z sizes) history {
	h := history{sizes: z}
	pick := func(all ...int64) int64 { return all[r.IntN(len(all))] }
	windows := [][]int64{{1, 10, 60}, {1, 3600}, {10, 11, 12}, {1, 86400}}[r.IntN(4)]
	numbers := [][]int64{{1, 2, 5}, {3, 10}, {5, 10, 40}, {10, 100}, {20, 60}}[r.IntN(5)]
	counts := []string{"calls"}
	if r.IntN(3) == 0 {
		counts = []string{"calls", "tokens"}
	}
	for range 6 {
		h.periods = append(h.periods, pick(5, 7, 13, 60, 1800)*second)
	}
	small := r.IntN(3) > 0
	limit := func() Applied {
		a := Applied{Count: counts[r.IntN(len(counts))]}
		a.Limit = exactly(pick(numbers...), time.Duration(pick(windows...))*time.Second)
		if x := r.IntN(12); small && x < 5 {
			a.Limit.Algorithm = Algorithm(1 + r.IntN(3))
			if a.Limit.Algorithm == FixedWindow && r.IntN(2) == 0 {
				a.Limit.Window, a.Limit.Calendar = 0, Day
			}
		} else if x == 11 {
			a.Limit.CountDenied = true
		}
		a.Limit.Shadow = r.IntN(6) == 0
		a.Replaced = r.IntN(6) == 0
		return a
	}
	for range 1 + r.IntN(3) {
		var plan []Applied
		for range r.IntN(5) {
			a := limit()
			a.Owner = fmt.Sprint(len(h.plans) % 2)
			clash := func(b Applied) bool {
				return a.Limit.Algorithm == TokenBucket && b.Limit.Algorithm == TokenBucket &&
					a.Count == b.Count && a.Limit.Window == b.Limit.Window
			}
			if !slices.ContainsFunc(plan, clash) {
				plan = append(plan, a)
			}
		}
		h.plans = append(h.plans, plan)
	}
	if r.IntN(12) == 0 { // a steady flow of calls under one limit, so that entries merge at every age
		h.plans = [][]Applied{{{Count: "calls", Limit: Limit{Requests: 60, Window: time.Minute}}}}
		for range 150 {
			h.ops = append(h.ops, op{kind: "call", cost: map[string]int64{"calls": pick(1, 1, 2)}},
				op{kind: "wait", by: r.Int64N(3 * second)})
		}
		return h
	}
	now := 0
	for range 20 + r.IntN(60) {
		if r.IntN(12) == 0 { // an edit, an undo, an override, another claim
			now = r.IntN(len(h.plans))
		}
		o := op{kind: "call", plan: now, record: r.IntN(2) == 0,
			cost: map[string]int64{"calls": pick(1, 1, 1, 2, 3, 7), "tokens": pick(0, 1, 1, 4)}}
		if r.IntN(20) == 0 {
			o.cost["calls"] = 0
		}
		longest := windows[len(windows)-1] * second
		switch x := r.IntN(100); {
		case x < 48:
		case x < 53: // the reply was lost: the same call again
			h.ops = append(h.ops, o)
		case x < 58:
			o.kind, o.plan = "look", r.IntN(len(h.plans))
		case x < 79:
			o.kind = "wait"
			o.by = pick(0, 1, 1000, second/3, second-1, second, r.Int64N(12*second), longest, longest/2,
				3*longest)
		case x < 93:
			o = op{kind: "settle", call: r.IntN(60), all: r.IntN(5) < 2, by: pick(-1, -2, 1, 5)}
		case x < 96:
			o = op{kind: "clock", by: pick(-1, -1000, -second, -10*second, second, 5*second)}
		case x < 97:
			o = op{kind: "reset"}
		default:
			for range pick(5, 20) {
				h.ops = append(h.ops, o)
			}
		}
		o.skew = pick(0, 0, -second, second)
		h.ops = append(h.ops, o)
	}
	return h
}

// periodsAt returns the periods around an instant, as an environment sends them.
func (h history) periodsAt(at int64) (p Periods) {
	p[1], p[2] = h.periods.around(at)
	p[0], _ = h.periods.around(p[1] - 1)
	_, p[3] = h.periods.around(p[2])
	return p
}

// play runs a history on an engine, and returns what is wrong; empty if nothing is.
func (h history) play(e engine) (problem string) {
	at := -1
	defer func() {
		switch p := recover().(type) {
		case nil, void:
		case wrong:
			problem = fmt.Sprintf("operation %d %+v: %s", at, h.ops[at], p.text)
		case string:
			problem = fmt.Sprintf("operation %d %+v: %s", at, h.ops[at], p)
		default:
			panic(p)
		}
	}()
	o := &oracle{sizes: h.sizes, ledgers: map[ledgerID]*ledger{}, periods: h.periods}
	clock, calls := base, []*call{}
	for i, op := range h.ops {
		at = i
		o.peak = max(o.peak, clock)
		switch op.kind {
		case "wait":
			clock += op.by
		case "clock":
			o.back = o.back || op.by < 0
			clock += op.by
		case "reset":
			o.forget(max(o.reset, clock))
			clock++
		case "settle":
			if len(calls) > 0 {
				o.settle(e, h, calls[op.call%len(calls)], op, clock)
			}
		default:
			if c := o.step(e, h, op, clock, i); c != nil {
				calls = append(calls, c)
			}
		}
	}
	return ""
}

// step makes a call or a look on the engine, and checks it.
func (o *oracle) step(e engine, h history, op op, clock int64, i int) *call {
	limits := slices.Clone(h.plans[op.plan])
	for i := range limits {
		limits[i].Cost = op.cost[limits[i].Count]
		if limits[i].Limit.Calendar != NoCalendar {
			limits[i].Periods = h.periodsAt(max(clock, o.peak) + op.skew)
		}
	}
	s, err := NewStep(limits)
	if err != nil {
		panic(err)
	}
	s.Reset = o.reset
	takes := op.kind == "call"
	if takes && op.record {
		s.Record, s.RecordFor = fmt.Sprintf("record%d", i), 1000*time.Hour
	}
	before := e.bytes(s)
	d, err := s.Decision(e.step(s, clock, takes))
	if err != nil {
		panic(err)
	}
	if !takes && e.bytes(s) != before {
		fail("a look changed the state")
	}
	c := o.decided(limits, d, clock, takes)
	if takes && !d.Allowed {
		checkRetry(e, s, d, clock)
	}
	if !takes || !d.Allowed {
		return nil
	}
	c.settlement.Record = s.Record
	return &c
}

// checkRetry checks that a call that was denied passes after its wait, and not a
// microsecond earlier.
func checkRetry(e engine, s Step, d Decision, clock int64) {
	u := d.Limits[d.Binding()]
	if u.Never {
		return
	}
	wait := u.RetryAfter.Microseconds()
	if e.step(s, clock+wait, false)[0] == 0 {
		fail("denied again after the wait of %s", u.RetryAfter)
	}
	if e.step(s, clock+wait-1, false)[0] == 1 {
		fail("passes a microsecond before the wait of %s", u.RetryAfter)
	}
}

// settle settles a call on the engine, and checks it. Without a record it settles once.
func (o *oracle) settle(e engine, h history, c *call, op op, clock int64) {
	if c.settled && c.settlement.Record == "" {
		return
	}
	s := c.settlement
	s.Reset = o.reset
	s.Changes = slices.Clone(s.Changes)
	for i, p := range s.Changes {
		if !op.all {
			s.Changes[i].By = max(op.by, -p.Cost)
		}
		if p.Periods != (Periods{}) {
			s.Changes[i].Periods = h.periodsAt(max(clock, o.peak) + op.skew)
		}
	}
	reply := e.give(s, clock)
	if c.settled {
		if len(reply) > 0 {
			fail("the call is settled twice: %v", reply)
		}
		return
	}
	if len(reply) != len(s.Changes) {
		fail("%d states gave back, of %d", len(reply), len(s.Changes))
	}
	c.settled = true
	o.settled(c, s, reply, clock)
}
