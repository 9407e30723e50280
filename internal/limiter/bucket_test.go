package limiter

import (
	"math/big"
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

// After a refund, a bucket has at most what it would have if the refunded calls had never
// been made, and exactly that if nothing is unreturned. A call that is refunded before it
// can have drained is returned whole.
func TestRefundsOfBucketsReturnAtMostTheCall(t *testing.T) {
	refunds, short := 0, 0
	playRefunds(t, func(p *refundPlay) {
		p.limit = Limit{Requests: 1 + p.random.Int64N(1000), Window: p.window(), Algorithm: TokenBucket}
		p.dense = p.random.IntN(2) == 0
		exact := true
		for range p.rounds() {
			p.forward()
			p.take(t, p.cost(), 0)
			if p.random.IntN(2) == 0 {
				amount, call, before, after := p.refund(t)
				if amount > 0 {
					refunds++
				}
				if after.Unreturned > 0 {
					short++
				}
				if returned := remaining(after) - remaining(before); amount > 0 &&
					(returned > amount || call.now.Equal(p.now()) && returned != amount) {
					p.fail(t, "got %d of %d returned", returned, amount)
				}
				exact = exact && after.Unreturned == 0
			}
			span := p.limit.Window.Microseconds()
			free := new(big.Rat).Sub(new(big.Rat).SetInt64(span), p.debtWithout())
			free.Mul(free, big.NewRat(p.limit.Requests, span))
			left := new(big.Int).Div(free.Num(), free.Denom()).Int64()
			got := remaining(p.do(t, 0, time.Unix(0, 0)))
			if got > left || exact && got != left {
				p.fail(t, "got %d remaining, want %d, exactly: %t", got, left, exact)
			}
		}
	})
	t.Logf("%d of %d refunds gave back less", short, refunds)
}

func remaining(d Decision) int64 {
	if len(d.Limits) == 0 {
		return 0
	}
	return d.Limits[0].Remaining
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
