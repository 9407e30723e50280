package limiter

import (
	"testing"
	"time"
)

// A burst of as many calls as a log admits outgrows the room of its slots several times,
// and the length from which on the state says how many are used. Every call counts,
// whichever limit the log shares its state with.
func TestBurstOutgrowsTheState(t *testing.T) {
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
				if n := s.besiege(t, requests); n != requests {
					t.Errorf("%d per 7 ms, denied calls count: %t, and %s: %d admitted at one instant",
						requests, denied, other, n)
				}
			}
		}
	}
}
