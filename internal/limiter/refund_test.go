package limiter

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/testing/valkeytest"
)

// A refund gives back at most what the call took: after it, no more remains than for a
// twin without the call. For a log without groups, a counter and a fixed window, exactly
// as much remains.
func TestRefundGivesBackAtMostWhatWasTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Limit{
			Requests: rapid.Int64Range(2, 40).Draw(t, "requests"), Window: windows.Draw(t, "window"),
			Algorithm: rapid.SampledFrom(Algorithms()).Draw(t, "algorithm"),
		}
		checkRefund(t, limit)
	})
}

// A token bucket refills after a call, in part or whole. A refund does not give back the
// same calls a second time.
func TestRefundOfATokenBucketThatRefilled(t *testing.T) {
	limits := []Limit{{Requests: 10, Window: 10 * time.Second, Algorithm: TokenBucket}}
	var m Model
	for _, e := range []struct {
		second float64
		cost   int64
	}{{0, 10}, {9, 5}} {
		if d, err := m.Take(at(e.second), limits, e.cost); err != nil || !d.Allowed {
			t.Fatalf("cost %d at %gs: %+v, %v", e.cost, e.second, d, err)
		}
	}
	// Without the first call, the second one would have left 5 of 10.
	if d := m.Refund(at(9), limits, 10, 1, at(0), 0); d.Limits[0].Remaining > 5 {
		t.Errorf("got %d remaining, want at most 5", d.Limits[0].Remaining)
	}
}

// A log and a token bucket drop calls beyond twice their limit, which only an override
// lets through. Refunds then take the dropped calls first: while as many as the limit are
// left of all, the limit stays used up. Once the dropped calls have left the window,
// refunds are exact again.
func TestRefundsTakeDroppedCallsFirst(t *testing.T) {
	counted := []Limit{{Requests: 10, Window: time.Minute}}
	override := []Limit{{Requests: 1000, Window: time.Minute, Algorithm: FixedWindow}}
	for _, edit := range []func(*Limit){
		func(*Limit) {},
		func(l *Limit) { l.Requests, l.Slots = 10*MinSlots, MinSlots },
		func(l *Limit) { l.Shadow = true }, // its enforced twin counts the calls
		func(l *Limit) { l.Algorithm = TokenBucket },
	} {
		limits := slices.Clone(counted)
		edit(&limits[0])
		tenth := limits[0].Requests / 10
		var m Model
		take := func(second float64, cost int64) Decision {
			return m.Step(Step{Now: at(second), Limits: override, Counted: limits, Cost: cost})
		}
		refund := func(second, taken float64, cost int64) Decision {
			return m.Step(Step{Now: at(second), Limits: override, Counted: limits, Cost: -cost,
				Calls: 1, Taken: at(taken)})
		}
		for i := range 40 {
			take(float64(i)/1000, tenth)
		}
		for i := range 30 { // of 40, the first 10 stay
			refund(0.05, float64(39-i)/1000, tenth)
		}
		limits[0].Shadow = false
		if d := m.Peek(at(0.06), limits); d.Allowed {
			t.Errorf("%v: got %v, want none left", limits, d.Limits)
		}
		if d := m.Peek(at(59.9), limits); d.Allowed && limits[0].Algorithm == Log {
			t.Errorf("%v: got %v before the calls leave the window, want none left", limits, d.Limits)
		}
		take(120, 5*tenth)
		take(125, tenth)
		refund(125, 125, tenth)
		if d := m.Peek(at(125), limits); d.Limits[0].Remaining != 5*tenth && limits[0].Algorithm == Log {
			t.Errorf("%v: got %v a window later, want half left", limits, d.Limits)
		}
	}
}

// twins are two subjects with the same calls, except for the one that is refunded, which
// without does not make.
type twins struct {
	limits        []Limit
	with, without Model
	now           time.Time
	log           []string
}

// take makes a call on with and, if it is allowed, on without.
func (w *twins) take(t *rapid.T, cost int64) {
	d, err := w.with.Take(w.now, w.limits, cost)
	if err != nil {
		t.Fatal(err)
	}
	w.log = append(w.log, fmt.Sprintf("%d cost %d: %t", w.now.UnixMicro(), cost, d.Allowed))
	if !d.Allowed {
		return
	}
	if d, _ := w.without.Take(w.now, w.limits, cost); !d.Allowed {
		t.Fatalf("%v\n%s\ndenied without the call, but allowed with it", w.limits,
			strings.Join(w.log, "\n"))
	}
}

// play makes random calls.
func (w *twins) play(t *rapid.T) {
	for range events(t) {
		span := w.limits[0].Window.Microseconds()
		w.now = w.now.Add(time.Duration(rapid.Int64Range(0, span/3).Draw(t, "forward")) * time.Microsecond)
		w.take(t, rapid.Int64Range(1, w.limits[0].Requests).Draw(t, "cost"))
	}
}

func checkRefund(t *rapid.T, limit Limit) {
	t.Helper()
	w := &twins{limits: []Limit{limit}, now: at(0)}
	w.play(t)
	taken, cost := w.now, rapid.Int64Range(1, limit.Requests).Draw(t, "refunded")
	if d, err := w.with.Take(w.now, w.limits, cost); err != nil || !d.Allowed {
		return
	}
	w.log = append(w.log, fmt.Sprintf("%d cost %d, to be refunded", w.now.UnixMicro(), cost))
	w.play(t)
	got := w.with.Refund(w.now, w.limits, cost, 1, taken, 0)
	want := w.without.Peek(w.now, w.limits)
	if got.Limits[0].Remaining > want.Limits[0].Remaining {
		t.Fatalf("%v\n%s\nrefund at %d: got %+v, want at most %+v as without the call",
			w.limits, strings.Join(w.log, "\n"), w.now.UnixMicro(), got.Limits[0], want.Limits[0])
	}
	exact := slices.Contains([]Algorithm{Log, Counter, FixedWindow}, limit.Algorithm)
	if exact && got.Limits[0].Remaining != want.Limits[0].Remaining {
		t.Fatalf("%v\n%s\nrefund at %d: got %+v, want %+v as without the call", w.limits,
			strings.Join(w.log, "\n"), w.now.UnixMicro(), got.Limits[0], want.Limits[0])
	}
}

// After concurrent calls and refunds of 16 callers on one key, exactly the calls that
// were not refunded count.
func TestConcurrentRefundsAreExact(t *testing.T) {
	client := connectUnpipelined(t, strings.TrimPrefix(valkeytest.Start(t), "valkey://"))
	for _, algorithm := range []Algorithm{Log, TokenBucket, FixedWindow} {
		limit := Limit{Requests: 20_000, Window: 5 * time.Minute, Algorithm: algorithm}
		if algorithm != Log { // so long that the bucket refills little and no window ends
			limit.Window = 366 * 24 * time.Hour
		}
		l := limitersOf(t, client, "tg:"+algorithm.String(), []Limit{limit})[0]
		const callers, rounds = 16, 100
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for i := range rounds {
					cost := int64(1 + i%3)
					taken, err := l.Take(t.Context(), "all", cost)
					if err != nil || !taken.Allowed {
						t.Errorf("take: got %v, %v, want allowed", taken, err)
						return
					}
					if i%10 == 0 { // not refunded
						continue
					}
					// A bucket may have drained a part of a call since.
					d, err := l.Refund(t.Context(), "all", cost, taken)
					if err != nil || d.Unreturned > 1 || d.Unreturned > 0 && algorithm != TokenBucket {
						t.Errorf("%s: refund: got %d unreturned, %v, want 0", algorithm, d.Unreturned, err)
					}
				}
			})
		}
		group.Wait()
		kept := int64(0)
		for i := 0; i < rounds; i += 10 {
			kept += callers * int64(1+i%3)
		}
		d, err := l.Peek(t.Context(), "all")
		if err != nil {
			t.Fatal(err)
		}
		left := d.Limits[0].Remaining
		if algorithm == TokenBucket { // each refund of a call may keep a drained part of it
			left += min(callers*rounds, max(0, limit.Requests-kept-left))
		}
		if left != limit.Requests-kept {
			t.Errorf("%s: got %d remaining, want %d", algorithm, left, limit.Requests-kept)
		}
	}
}

// A refund to a log, with and without groups, raises remaining by exactly the refunded
// cost, whatever calls were made since. A log without groups always equals the oracle's
// list.
func TestRefundsOfLogsAreExact(t *testing.T) {
	most := int64(0) // what grouped logs withheld, in thousandths of a group
	playRefunds(t, func(p *refundPlay) {
		p.limit = Limit{Requests: 1 + p.random.Int64N(3000), Window: p.window()}
		if p.random.IntN(3) > 0 {
			p.limit.Slots = MinSlots
			p.limit.Requests += MinSlots
		}
		if p.random.IntN(10) == 0 {
			p.limit.Slots, p.limit.Requests = 500, 1_000_000
		}
		p.dense = p.random.IntN(10) == 0
		for range p.rounds() {
			p.forward()
			for range 1 + p.random.IntN(3) {
				p.take(t, p.cost(), p.limit.Requests)
			}
			if p.random.IntN(2) == 0 {
				p.checkLogRefund(t)
			}
			p.measure(t)
			left := p.do(t, 0, time.Unix(0, 0)).Limits[0].Remaining
			withheld := p.limit.Requests - left - p.used()
			group := p.limit.group()
			if withheld < 0 || group == 1 && withheld > 0 {
				p.fail(t, "got %d remaining, with %d used by the list", left, p.used())
			}
			most = max(most, 1000*withheld/group)
			bound := stateHead + logEntry + deficitBytes*maxDeficits + 6*(p.limit.Requests/group*11/10+6)
			if int64(p.bytes) > bound {
				p.fail(t, "got a state of %d bytes, want at most %d", p.bytes, bound)
			}
		}
	})
	t.Logf("grouped logs withheld at most %.2f groups", float64(most)/1000)
}

// checkLogRefund makes a refund and checks that it is exact. Calls that have left the
// window give nothing back.
func (p *refundPlay) checkLogRefund(t *testing.T) {
	t.Helper()
	amount, call, before, after := p.refund(t)
	if amount == 0 {
		return
	}
	if p.at.Sub(call.at) >= p.limit.Window {
		amount = 0
	}
	if got := after.Limits[0].Remaining - before.Limits[0].Remaining; got != amount || after.Unreturned != 0 {
		p.fail(t, "got %d returned and %d unreturned, want %d and 0", got, after.Unreturned, amount)
	}
}

// If a log gets more deficits than it can keep, they are merged: each refund stays exact,
// their number bounded, and at most 8 groups are withheld. Each call is refunded late, in
// random order.
func TestManyRefundsOfALogStayBounded(t *testing.T) {
	most := 0.0
	playRefunds(t, func(p *refundPlay) {
		if p.random.IntN(40) > 0 {
			return
		}
		p.limit = Limit{Requests: 1_000_000, Window: 10 * time.Minute, Slots: 100 + p.random.IntN(2000)}
		group := p.limit.group()
		for range 100 + p.random.IntN(200) {
			p.at = p.at.Add(time.Duration(p.random.IntN(2000)) * time.Millisecond)
			p.take(t, 1+p.random.Int64N(3000), p.limit.Requests)
		}
		for _, i := range p.random.Perm(len(p.calls)) {
			p.at = p.at.Add(time.Millisecond)
			c := &p.calls[i]
			amount := 1 + p.random.Int64N(c.cost)
			before := p.do(t, 0, time.Unix(0, 0))
			after := p.do(t, -amount, c.now)
			c.cost -= amount
			if got := after.Limits[0].Remaining - before.Limits[0].Remaining; got != amount ||
				after.Unreturned != 0 {
				p.fail(t, "got %d returned and %d unreturned, want %d and 0", got, after.Unreturned, amount)
			}
		}
		if n := len(p.model.parts[0].deficits); n > maxDeficits {
			p.fail(t, "got %d deficits, want at most %d", n, maxDeficits)
		}
		for range 50 {
			p.at = p.at.Add(15 * time.Second)
			left := p.do(t, 0, time.Unix(0, 0)).Limits[0].Remaining
			withheld := p.limit.Requests - left - p.used()
			if withheld < 0 {
				p.fail(t, "got %d remaining, with %d used by the list", left, p.used())
			}
			most = max(most, float64(withheld)/float64(group))
		}
	})
	t.Logf("grouped logs withheld at most %.2f groups", most)
	if most > 8 {
		t.Errorf("got %.2f groups withheld, want at most 8", most)
	}
}

// After a refund, a counter and a fixed window are as if the refunded calls had never
// been made.
func TestRefundsOfCountsAreExact(t *testing.T) {
	playRefunds(t, func(p *refundPlay) {
		p.limit = Limit{
			Requests: 1 + p.random.Int64N(1000), Window: time.Duration(1+p.random.IntN(3000)) * time.Second,
			Algorithm: []Algorithm{Counter, FixedWindow}[p.random.IntN(2)],
		}
		for range p.rounds() {
			p.forward()
			p.take(t, p.cost(), 0)
			if p.random.IntN(2) == 0 {
				p.refund(t)
			}
			start := p.at.UnixMicro() - p.at.UnixMicro()%p.limit.Window.Microseconds()
			span := p.limit.Window.Microseconds()
			current, previous := int64(0), int64(0)
			for _, c := range p.calls {
				switch at := c.at.UnixMicro(); {
				case at >= start:
					current += c.cost
				case at >= start-span && p.limit.Algorithm == Counter:
					previous += c.cost
				}
			}
			weight := span - (p.at.UnixMicro() - start)
			used := current + (previous*weight+span-1)/span
			d := p.do(t, 0, time.Unix(0, 0))
			if got := d.Limits[0].Remaining; got != max(0, p.limit.Requests-used) {
				p.fail(t, "got %d remaining, want %d less %d", got, p.limit.Requests, used)
			}
		}
	})
}

// With refunds, edits of limits and slots, and a server's clock that steps back, no
// rolling window of true time exceeds the largest limit; limits with other calls in a slot
// have a budget of their own. Refunded calls do not count.
func TestRefundsNeverAdmitTooMuch(t *testing.T) {
	playRefunds(t, func(p *refundPlay) {
		window := time.Duration(1+p.random.IntN(3000)) * time.Second
		limits := []Limit{{Requests: 2 + p.random.Int64N(2000), Window: window, Slots: MinSlots}}
		steps := p.random.IntN(2) == 0
		if p.random.IntN(2) == 0 {
			limits = append(limits,
				Limit{Requests: 2 + p.random.Int64N(2000), Window: window, Slots: MinSlots},
				Limit{Requests: 2 + p.random.Int64N(2000), Window: window})
		}
		budgets, bound := map[int64]int64{}, int64(0)
		for _, l := range limits {
			budgets[l.group()] = max(budgets[l.group()], l.Requests)
		}
		for _, budget := range budgets {
			bound += budget
		}
		p.limit = limits[0]
		for range p.rounds() {
			p.forward()
			if steps && p.random.IntN(10) == 0 {
				p.behind += time.Duration(p.random.Int64N(int64(window/5))) / 1000 * 1000
			}
			p.limit = limits[p.random.IntN(len(limits))]
			for range 1 + p.random.IntN(4) { // leaves little remaining
				p.take(t, 1+p.random.Int64N(max(1, p.limit.Requests/3)), bound)
			}
			if p.random.IntN(2) == 0 {
				amount, _, before, after := p.refund(t)
				if amount == 0 {
					continue
				}
				if got := after.Limits[0].Remaining - before.Limits[0].Remaining; got > amount {
					p.fail(t, "got %d returned, want at most %d", got, amount)
				}
			}
		}
	})
}
