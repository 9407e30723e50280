package limiter

import (
	"math/big"
	"slices"
	"testing"
	"time"
)

// debtWithout returns the debt of a bucket without the refunded calls, in microseconds.
// It computes it from the list of calls.
func (p *refundPlay) debtWithout() *big.Rat {
	debt, at := new(big.Rat), p.at
	drain := func(to time.Time) {
		debt.Sub(debt, new(big.Rat).SetInt64(to.Sub(at).Microseconds()))
		if debt.Sign() < 0 {
			debt.SetInt64(0)
		}
		at = to
	}
	for i, c := range p.calls {
		if i == 0 {
			at = c.at
		}
		drain(c.at)
		debt.Add(debt, big.NewRat(c.cost*p.limit.Window.Microseconds(), p.limit.Requests))
	}
	drain(p.at)
	return debt
}

func isMerged(v valley) bool { return v.merged }

// After a refund, a bucket whose calls reserve is as if the refunded calls had never been
// made. Only after a merge of valleys may it give back less, and Unreturned is then above
// 0.
func TestRefundsOfBucketsAreExact(t *testing.T) {
	refunds, short := 0, 0
	playRefunds(t, func(p *refundPlay) {
		p.limit = Limit{
			Requests: 1 + p.random.Int64N(1000), Window: p.window(),
			Algorithm: TokenBucket,
		}
		p.reserve = p.random.IntN(5) > 0
		p.dense = p.random.IntN(2) == 0
		exact := true
		for range p.rounds() {
			p.forward()
			p.take(t, p.cost(), 0)
			if p.random.IntN(2) == 0 {
				merged := len(p.model.states) > 0 &&
					slices.ContainsFunc(p.model.states[0].valleys.list, isMerged)
				amount, _, _, after := p.refund(t)
				if amount > 0 && p.reserve {
					refunds++
				}
				if after.Unreturned > 0 && p.reserve {
					short++
				}
				if after.Unreturned > 0 && p.reserve && !merged {
					p.fail(t, "got %d unreturned without a merged valley, want 0", after.Unreturned)
				}
				exact = exact && after.Unreturned == 0
			}
			p.measure(t)
			want := p.debtWithout()
			span := p.limit.Window.Microseconds()
			free := new(big.Rat).Sub(new(big.Rat).SetInt64(span), want)
			free.Mul(free, big.NewRat(p.limit.Requests, span))
			left := new(big.Int).Div(free.Num(), free.Denom()).Int64()
			got := p.do(t, 0, time.Unix(0, 0)).Limits[0].Remaining
			if got > left || exact && got != left {
				p.fail(t, "got %d remaining, want %d, exactly: %t", got, left, exact)
			}
			if most := 29 + 12 + 30 + 12 + 24*maxValleys; p.bytes > most {
				p.fail(t, "got a state of %d bytes, want at most %d", p.bytes, most)
			}
		}
	})
	t.Logf("%d of %d refunds of reserved calls gave back less", short, refunds)
}

// A burst that uses up a log exceeds the room of its slots several times, and the length
// of a state that is read whole. Every call of it counts, whatever other limit is in the
// state.
func TestBurstGrowsState(t *testing.T) {
	clock := newClocked(t)
	for _, requests := range []int64{100, 461, 700} {
		for _, denied := range []bool{true, false} {
			for _, other := range []Limit{
				{Requests: 784, Window: time.Second, CountDenied: true, Slots: MinSlots},
				{Requests: 784, Window: time.Second, CountDenied: true},
				{Requests: 784, Window: time.Second, Slots: MinSlots},
				{Requests: 784, Window: time.Minute},
				{Requests: 784, Window: time.Minute, Algorithm: Counter},
			} {
				s := clock.subject(
					Limit{Requests: requests, Window: 7 * time.Millisecond, CountDenied: denied}, other)
				if n := s.exhaust(t, requests); n != requests {
					t.Errorf("%d per 7 ms, denied calls count: %t, and %s: got %d admitted at one instant, "+
						"want %[1]d", requests, denied, other, n)
				}
			}
		}
	}
}
