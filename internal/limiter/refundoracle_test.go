package limiter

import (
	"testing"
	"time"
)

// After a refund the next look sees exactly that much more, in a log with and without
// groups, whatever came between. A log without groups is the oracle's list.
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
			withheld := p.limit.Requests - left - p.held()
			group := p.limit.group()
			if withheld < 0 || group == 1 && withheld > 0 {
				p.fail(t, "%d remain, but %d of the limit are held", left, p.held())
			}
			most = max(most, 1000*withheld/group)
			bound := 44 + 42 + 12*maxDeficits + 6*(p.limit.Requests/group*11/10+5)
			if int64(p.bytes) > bound {
				p.fail(t, "the state has %d bytes, more than %d", p.bytes, bound)
			}
		}
	})
	t.Logf("grouped logs withheld %.2f groups at most", float64(most)/1000)
}

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
		p.fail(t, "%d came back and %d did not, want %d and none", got, after.Unreturned, amount)
	}
}

// More deficits than a log keeps are merged: the total stays exact, the state within its
// bound, and what is withheld is little. Each call is settled late, in any order.
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
				p.fail(t, "%d came back and %d did not, want %d and none", got, after.Unreturned, amount)
			}
		}
		if n := len(p.model.states[0].deficits); n > maxDeficits {
			p.fail(t, "%d deficits", n)
		}
		for range 50 {
			p.at = p.at.Add(15 * time.Second)
			left := p.do(t, 0, time.Unix(0, 0)).Limits[0].Remaining
			withheld := p.limit.Requests - left - p.held()
			if withheld < 0 {
				p.fail(t, "%d remain, but %d are held", left, p.held())
			}
			most = max(most, float64(withheld)/float64(group))
		}
	})
	t.Logf("grouped logs withheld %.2f groups at most", most)
	if most > 8 {
		t.Error("want at most 8 groups")
	}
}

// A counter and a fixed window stand after a refund as if the calls had never been made.
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
				p.fail(t, "%d remain, want %d less %d", got, p.limit.Requests, used)
			}
		}
	})
}

// No rolling window of true time holds more than the limit of calls that were not given
// back, when the server's clock steps back and limits and slots are edited meanwhile.
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
		bound := int64(0)
		for _, l := range limits {
			bound = max(bound, l.Requests)
		}
		p.limit = limits[0]
		for range p.rounds() {
			p.forward()
			if steps && p.random.IntN(10) == 0 {
				p.behind += time.Duration(p.random.Int64N(int64(window/5))) / 1000 * 1000
			}
			p.limit = limits[p.random.IntN(len(limits))]
			for range 1 + p.random.IntN(4) { // until little remains
				p.take(t, 1+p.random.Int64N(max(1, p.limit.Requests/3)), bound)
			}
			if p.random.IntN(2) == 0 {
				amount, _, before, after := p.refund(t)
				if amount == 0 {
					continue
				}
				if got := after.Limits[0].Remaining - before.Limits[0].Remaining; got > amount {
					p.fail(t, "%d came back of %d", got, amount)
				}
			}
		}
	})
}
