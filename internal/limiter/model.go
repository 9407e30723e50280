package limiter

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"sort"
	"time"
)

// The constants of the algorithm; the scripts have the same.
const (
	part  = 500     // a merged entry stands for at most a 500th of what came after it
	least = 24      // a log of fewer entries is not rewritten
	piece = 300     // the most entries that one rewrite may merge
	reach = 1 << 38 // the cost that a log knows; in Valkey totals are modulo 4 * reach

	never = -1 // the wait of a cost above its limit
)

// Model is the limiter without Valkey: the scripts are its translation, in the same order.
// In them ask and step are ask.lua and step.lua, add with rewrite is add.lua, give is
// give.lua, and findTime and findAfter are find; first of a rewrite is base, first of a
// small state is opened, its end is finish, and a limit's fits is wait. The zero value has
// counted nothing. A Model reads no clock, and is not safe for concurrent use.
type Model struct {
	states map[string]state // by key
	full   int              // the number of states at which those that have ended go

	part, least, piece int64 // tests change the constants
}

// state is a log or a small state.
type state interface {
	newest() int64 // the instant of the latest call that it counted
	ends() int64   // when it counts nothing any more, if nobody calls
}

// log is a list of entries, oldest first: a time, and the total of what was counted up to
// and including it. Only differences of totals matter. The first entry is the end of what
// was cut off; in a new log it is a microsecond before the first call.
type log struct {
	part, least, piece int64

	began         int64 // when the present period began
	keep, number  int64 // the longest window and the largest number named since the period before
	keep2, num2   int64 // the same, named in the present period
	full          int64 // the number of entries at which a piece is rewritten
	next          int64 // the entry with which that piece begins
	times, totals []int64
}

func (l *log) newest() int64 { return l.times[len(l.times)-1] }

// ends returns two periods after the present one began.
func (l *log) ends() int64 { return l.began + 2*l.keep }

// after returns what was counted after entry i.
func (l *log) after(i int) int64 { return l.totals[len(l.totals)-1] - l.totals[i] }

// findTime returns the first entry from i on that is later than an instant.
func (l *log) findTime(i int, since int64) int {
	return i + sort.Search(len(l.times)-i, func(k int) bool { return l.times[i+k] > since })
}

// findAfter returns the first entry from i on after which at most left was counted.
func (l *log) findAfter(i int, left int64) int {
	return i + sort.Search(len(l.times)-i, func(k int) bool { return l.after(i+k) <= left })
}

// ask returns what a limit has left, and two instants: when the cost fits, and when the
// limit has more left. They are 0 if the cost fits now and if nothing is used. What was
// counted up to reset does not count.
func (l *log) ask(r Rate, cost, now, reset int64) (left, fits, more int64) {
	first := l.findTime(1, max(now-r.Window, reset))
	left = r.Number - l.after(first-1)
	if left < r.Number { // more is left when the oldest call leaves; what is owed must leave first
		k := l.findAfter(first, min(r.Number-left, r.Number)-1)
		more = min(l.times[k]+r.Window, l.ends())
	}
	if cost > r.Number {
		fits = never
	} else if cost > max(left, 0) { // a cost of 0 fits, whatever is owed
		k := l.findAfter(first, r.Number-cost)
		fits = min(l.times[k]+r.Window, l.ends())
	}
	return left, fits, more
}

// name remembers a window and a number. A period is as long as the longest window. So a
// window is kept for its whole length after it was last named, and is gone two later.
func (l *log) name(window, number, now int64) {
	if now-l.began >= l.keep {
		l.began, l.keep, l.number, l.keep2, l.num2 = now, l.keep2, l.num2, 0, 0
	}
	l.keep, l.keep2 = max(l.keep, window), max(l.keep2, window)
	l.number, l.num2 = max(l.number, number), max(l.num2, number)
}

// add counts a cost now. A settlement leaves the rewrite to the next call.
func (l *log) add(cost, now, reset int64, settles bool) {
	if len(l.times) == 0 {
		l.times, l.totals, l.full = []int64{now - 1}, []int64{0}, l.least
	}
	end := len(l.times) - 1
	if settles { // totals are modulo 4 * reach, and 2^32 is room for the calls that follow
		cost = min(cost, 4*reach-1<<32-l.after(0))
	}
	total := l.totals[end] + cost
	if l.times[end] == now && end > 0 {
		l.totals[end] = total
	} else {
		l.times, l.totals = append(l.times, now), append(l.totals, total)
	}
	if settles {
		return
	}
	if l.after(0) > 2*reach {
		l.next, l.full = 0, 0
	}
	if int64(len(l.times)) >= l.full {
		l.rewrite(now, reset)
	}
}

// rewrite merges neighbours in the next piece of the log, and drops entries that stand
// for nothing, because their calls were given back. With the first piece it cuts off what
// the longest remembered window does not reach. A merged entry has the time of its latest
// call: it counts a little too long, never too short. The present limits are not asked,
// so one that comes back finds entries as fine as it needs.
func (l *log) rewrite(now, reset int64) {
	first, cut, count := int(l.next), 0, len(l.times)
	if first == 0 {
		first = max(l.findTime(0, max(now-l.keep, reset))-1, 0)
		if l.after(first) > reach {
			first = l.findAfter(first, reach) - 1
			l.totals[first] = l.totals[count-1] - reach
		}
		cut = first
	}
	// From exact on nothing merges: two entries of cost 1 need 2 * part after them. Nothing
	// is dropped there if there are no more entries than what they stand for.
	exact, enough := count, min(l.number, 2*l.part)
	if k := l.findAfter(first+1, enough-1); int64(count-k) <= enough {
		exact = k
	}
	last := min(first+int(l.piece), exact-1)
	var times, totals []int64
	for end := last; end > first; {
		start := end - 1
		if l.totals[end] != l.totals[start] {
			after := l.after(end)
			for start > first && (after >= l.number || l.part*(l.totals[end]-l.totals[start-1]) <= after) {
				start--
			}
			times, totals = append(times, l.times[end]), append(totals, l.totals[end])
		}
		end = start
	}
	slices.Reverse(times)
	slices.Reverse(totals)
	read := int64(1 + len(times))
	l.next = int64(first-cut) + read - 1
	if last == exact-1 {
		l.next, read = 0, read+int64(count-exact)
	}
	l.times = slices.Concat(l.times[cut:first+1], times, l.times[last+1:])
	l.totals = slices.Concat(l.totals[cut:first+1], totals, l.totals[last+1:])
	l.full = max(l.least, int64(len(l.times))+read*9/10)
}

// give gives back cost of the call made at an instant, at most what its entry stands for.
// It returns what it gave back: what the log does not know stays counted.
func (l *log) give(cost, at int64) int64 {
	k := l.findTime(0, at-1) // merged or not, this entry has the call
	if k == 0 || k == len(l.times) {
		return 0
	}
	cost = min(cost, l.totals[k]-l.totals[k-1])
	for i := k; i < len(l.totals); i++ {
		l.totals[i] -= cost
	}
	return cost
}

// small is the state of a counter, a token bucket or a fixed window.
type small struct {
	first    int64 // the instant of the first call
	last     int64 // the instant of the latest call
	start    int64 // when its fixed window began
	previous int64 // what a counter counted in the window before
	count    int64 // what was counted in the present window, or has not drained from the bucket
	parts    int64 // what else has not drained, in parts of 1/window
	end      int64 // two windows after the latest call
}

func (c *small) newest() int64 { return c.last }
func (c *small) ends() int64   { return c.end }

// roll brings a small state to the instant now, which is not before its latest call. It
// returns when the present window ends.
func (c *small) roll(s *State, now, reset int64) (end int64) {
	if c.first <= reset {
		c.previous, c.count, c.parts = 0, 0, 0
	}
	switch s.Algorithm {
	case TokenBucket:
		drained, parts := muldiv(min(now-c.last, 2*s.Window), s.Number, s.Window)
		c.count, c.parts = c.count-drained, c.parts-parts
		if c.parts < 0 {
			c.count, c.parts = c.count-1, c.parts+s.Window
		}
		if c.count < 0 || now-c.last >= 2*s.Window {
			c.count, c.parts = 0, 0
		}
	case Counter:
		start := now - now%s.Window
		if c.last < start-s.Window {
			c.previous, c.count = 0, 0
		} else if c.last < start {
			c.previous, c.count = c.count, 0
		}
		c.start, end = start, start+s.Window
	default:
		c.start, end = s.period(now)
		if c.last < c.start {
			c.count = 0
		}
	}
	return end
}

// ask is log.ask for a small state.
func (c *small) ask(s *State, r Rate, cost, now, reset int64) (left, fits, more int64) {
	p := *c
	end := p.roll(s, now, reset)
	left = r.Number - p.count
	if p.parts > 0 {
		left--
	}
	if s.Algorithm == Counter {
		weighted, rest := muldiv(end-now, p.previous, s.Window)
		left -= weighted
		if rest > 0 {
			left--
		}
	}
	if left < r.Number {
		more = p.fits(s, r, max(left, 0)+1, now, end)
	}
	if cost > r.Number {
		fits = never
	} else if cost > max(left, 0) { // a cost of 0 fits, whatever is owed
		fits = p.fits(s, r, cost, now, end)
	}
	return left, fits, more
}

// fits returns when a cost fits that does not fit now.
func (c *small) fits(s *State, r Rate, cost, now, end int64) int64 {
	over := c.count + cost - r.Number
	switch {
	case s.Algorithm == FixedWindow:
		return end
	case s.Algorithm == TokenBucket:
		if over >= 2*s.Number {
			return c.end
		}
		wait, rest := muldiv(s.Window, over, s.Number)
		return min(now+wait+(rest+c.parts+s.Number-1)/s.Number, c.end)
	case over <= 0: // as soon as less of the previous window overlaps
		overlap, _ := muldiv(s.Window, -over, c.previous)
		return end - overlap
	default:
		overlap, _ := muldiv(s.Window, r.Number-cost, c.count)
		return end + s.Window - overlap
	}
}

// add counts a cost now.
func (c *small) add(s *State, cost, now, reset int64) {
	if c.end == 0 {
		c.first, c.last = now, now
	}
	c.roll(s, now, reset)
	if c.first <= reset {
		c.first = now
	}
	c.last, c.count = now, min(c.count+cost, 2*reach)
	c.end = now + 2*s.Window
}

// give gives back cost of the call made at an instant, and returns what it gave back.
func (c *small) give(s *State, cost, at, reset int64) int64 {
	if at < c.first || at > c.last || c.first <= reset {
		return 0
	}
	switch s.Algorithm {
	case TokenBucket: // what drained before the latest call may have been this call's
		drained, rest := muldiv((c.last-at)%s.Window, s.Number, s.Window)
		drained += min((c.last-at)/s.Window, cost) * s.Number
		if cost <= drained {
			return 0
		}
		held := c.count
		if c.parts > 0 {
			held++
		}
		c.count, c.parts = c.count-(cost-drained), c.parts+rest
		if c.parts >= s.Window {
			c.count, c.parts = c.count+1, c.parts-s.Window
		}
		if c.count < 0 {
			c.count, c.parts = 0, 0
		}
		return min(cost-drained, held)
	case Counter:
		start := c.last - c.last%s.Window
		switch {
		case at >= start:
			cost = min(cost, c.count)
			c.count -= cost
		case at >= start-s.Window:
			cost = min(cost, c.previous)
			c.previous -= cost
		default:
			return 0
		}
	default:
		if at < c.start {
			return 0
		}
		cost = min(cost, c.count)
		c.count -= cost
	}
	return cost
}

// mark is the record of a call that will be settled.
type mark struct{ end int64 }

func (r mark) newest() int64 { return 0 }
func (r mark) ends() int64   { return r.end }

// find returns the state of a key at an instant of the server's clock. It returns nil if
// there is none, if it has ended.
func (m *Model) find(key string, clock int64) state {
	p := m.states[key]
	if p == nil || p.ends() <= clock {
		return nil
	}
	return p
}

// put makes the state of a key. Now and then it removes those that have ended.
func (m *Model) put(key string, p state, clock int64) {
	if len(m.states) >= m.full {
		maps.DeleteFunc(m.states, func(_ string, p state) bool { return p.ends() <= clock })
		m.full = 2*len(m.states) + least
	}
	if m.states == nil {
		m.states = map[string]state{}
	}
	m.states[key] = p
}

// add counts a cost in a state now, and makes the state if there is none.
func (m *Model) add(s *State, cost, now, clock, reset int64, settles bool) state {
	p := m.find(s.Key, clock)
	if p == nil {
		p = &small{}
		if s.Algorithm == Log {
			p = &log{part: cmp.Or(m.part, part), least: cmp.Or(m.least, least), piece: cmp.Or(m.piece, piece)}
		}
		m.put(s.Key, p, clock)
	}
	if l, ok := p.(*log); ok {
		l.name(s.Window, s.Number, now)
		l.add(cost, now, reset, settles)
	} else {
		p.(*small).add(s, cost, now, reset)
	}
	return p
}

// answers returns the answers of the limits of a state, as a reply has them, and whether
// the cost fits all of them.
func (s *State) answers(p state, now, clock, reset int64) (answers []int64, fits bool) {
	fits = true
	for _, r := range s.Rates {
		left, wait, more := r.Number, int64(0), int64(0)
		switch p := p.(type) {
		case *log:
			left, wait, more = p.ask(r, s.Cost, now, reset)
		case *small:
			left, wait, more = p.ask(s, r, s.Cost, now, reset)
		default:
			if s.Cost > r.Number {
				wait = never
			}
		}
		if wait > 0 {
			wait -= clock
		}
		if more > 0 {
			more -= clock
		}
		fits = fits && wait == 0
		answers = append(answers, left, wait, more)
	}
	return answers, fits
}

// step decides a call at an instant of the server's clock, and returns what the scripts
// reply. If it takes, every state or none takes the cost.
func (m *Model) step(s Step, clock int64, takes bool) []int64 {
	states := make([]state, len(s.States))
	now := max(clock, s.Reset+1) // a call has one instant in all states
	for i, c := range s.States {
		if p := m.find(c.Key, clock); p != nil {
			states[i] = p
			now = max(now, p.newest())
		}
	}
	passed, took := int64(1), int64(0)
	answers := make([][]int64, len(s.States))
	fits := make([]bool, len(s.States))
	for i := range s.States {
		c := &s.States[i]
		answers[i], fits[i] = c.answers(states[i], now, clock, s.Reset)
		if !fits[i] && c.Fate&Shadow == 0 {
			passed = 0
		}
	}
	for i := range s.States {
		c := &s.States[i]
		counts := c.Fate&Attempts != 0 || passed == 1 && (c.Fate&Shadow == 0 || fits[i])
		if !takes || !counts || c.Cost == 0 {
			continue
		}
		took |= 1 << i
		p := m.add(c, c.Cost, now, clock, s.Reset, false)
		answers[i], _ = c.answers(p, now, clock, s.Reset) // a denied attempt waits for itself, too
		for k := 1; passed == 1 && fits[i] && k < len(answers[i]); k += replyAnswer {
			answers[i][k] = 0 // what is taken needs no wait, also if the next call would
		}
	}
	if takes && passed == 1 && s.Record != "" {
		m.put(s.Record, mark{clock + s.RecordFor.Microseconds()}, clock)
	}
	return slices.Concat([]int64{passed, now, clock, took}, slices.Concat(answers...))
}

// give settles a call at an instant of the server's clock. It returns what each state
// gave back or was charged, or nothing if the call has no record, because it is settled.
func (m *Model) give(s Settlement, clock int64) []int64 {
	if s.Record != "" {
		if m.find(s.Record, clock) == nil {
			return nil
		}
		delete(m.states, s.Record)
	}
	reply := make([]int64, len(s.Changes))
	now := max(clock, s.Reset+1) // a settlement, too, has one instant in all states
	for _, c := range s.Changes {
		if p := m.find(c.Key, clock); p != nil {
			now = max(now, p.newest())
		}
	}
	for i := range s.Changes {
		c := &s.Changes[i]
		p := m.find(c.Key, clock)
		if c.By > 0 {
			m.add(&c.State, c.By, now, clock, s.Reset, true)
			reply[i] = c.By
		} else if l, ok := p.(*log); ok && s.At > s.Reset {
			reply[i] = l.give(-c.By, s.At)
		} else if small, ok := p.(*small); ok && s.At > s.Reset {
			reply[i] = small.give(&c.State, -c.By, s.At, s.Reset)
		}
	}
	return reply
}

// Take takes the cost of a call from all of its limits, or from none.
func (m *Model) Take(s Step, now time.Time) (Decision, error) {
	return s.Decision(m.step(s, now.UnixMicro(), true))
}

// Look decides a call as Take does, and takes nothing.
func (m *Model) Look(s Step, now time.Time) (Decision, error) {
	return s.Decision(m.step(s, now.UnixMicro(), false))
}

// Settle settles a call. It returns what each state gave back or was charged, in the order
// of the changes; nothing if the call is settled already.
func (m *Model) Settle(s Settlement, now time.Time) []int64 { return m.give(s, now.UnixMicro()) }

// muldiv returns a*b/d and the remainder, for a and d up to 2^46 and a quotient below 2^53.
func muldiv(a, b, d int64) (quotient, rest int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(hi, lo, uint64(d))
	return int64(q), int64(r)
}
