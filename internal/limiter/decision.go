package limiter

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Usage is what a step found of one limit.
type Usage struct {
	Limit Limit
	// Remaining is the cost that could still be taken: 0 to Limit.Requests. After a call that
	// passed it excludes the call's cost.
	Remaining int64
	// Owed is what settlements took above the limit. It leaves with its window; until then
	// the limit denies.
	Owed int64
	// Next is the time until Remaining rises if nobody calls; 0 if nothing is used.
	Next time.Duration
	// RetryAfter is the time until the same cost fits this limit if nobody else calls; 0 if
	// it fits, and if it never does.
	RetryAfter time.Duration
	// Never says that the cost is above the limit.
	Never bool
	// Asked is false for a limit that only counts. Its other fields are then zero.
	Asked bool
}

// Denies reports whether the cost does not fit. A limit in shadow denies no call.
func (u Usage) Denies() bool { return u.Never || u.RetryAfter > 0 }

// Used returns the cost that the limit counts now. Remaining plus Used, less Owed, is
// Limit.Requests.
func (u Usage) Used() int64 { return u.Limit.Requests - u.Remaining + u.Owed }

// Decision is the answer to a step. A denial is a Decision, not an error.
type Decision struct {
	// Allowed reports whether the cost fits every enforced limit. If it does not, only
	// states of attempts took it.
	Allowed bool
	// Now is the server's clock, from which Next and RetryAfter count.
	Now time.Time
	// At is the instant of the call in the states, by which it is given back. It is later
	// than Now after the clock stepped back, and after a reset that is ahead of it.
	At time.Time
	// Limits has a Usage for each limit, in the order given to NewStep.
	Limits []Usage
	// Taken has the states that took the cost and can give it back. It is empty for a look.
	Taken []State
}

// WouldAllow reports whether the cost fits every limit, those in shadow too.
func (d Decision) WouldAllow() bool { return !slices.ContainsFunc(d.Limits, Usage.Denies) }

// Binding returns the index of the limit that denied and waits longest, where a limit that
// never admits the cost waits longest of all. It is -1 if the call is allowed.
func (d Decision) Binding() int {
	longest := -1
	for i, u := range d.Limits {
		if u.Limit.Shadow || !u.Denies() {
			continue
		}
		if longest >= 0 {
			other := d.Limits[longest]
			if other.Never || !u.Never && u.RetryAfter <= other.RetryAfter {
				continue
			}
		}
		longest = i
	}
	return longest
}

// RetryAfter returns the time until the same cost would be allowed if nobody else calls; 0
// if it was allowed, or if it never is.
func (d Decision) RetryAfter() time.Duration {
	if i := d.Binding(); i >= 0 {
		return d.Limits[i].RetryAfter
	}
	return 0
}

// ErrReply means that a script's reply could not be decoded.
var ErrReply = errors.New("limiter: unexpected reply")

// replyHead is the number of integers before the answers: 1 if the call passed, its
// instant, the server's clock, and bit i for state i that took the cost. An answer is what
// is left, the wait and the time until more is left (microseconds).
const (
	replyHead   = 4
	replyAnswer = 3
)

// Decision decodes the reply of a script or of a Model to the step.
func (s Step) Decision(reply []int64) (Decision, error) {
	answers := 0
	for _, p := range s.States {
		answers += len(p.Rates)
	}
	if len(reply) != replyHead+replyAnswer*answers {
		return Decision{}, fmt.Errorf("%w: %d integers for %d limits", ErrReply, len(reply), answers)
	}
	d := Decision{Allowed: reply[0] == 1, At: time.UnixMicro(reply[1]).UTC(),
		Now: time.UnixMicro(reply[2]).UTC(), Limits: make([]Usage, len(s.limits))}
	for i, l := range s.limits {
		u := Usage{Limit: l, Asked: s.asked[i] >= 0}
		if u.Asked {
			a := reply[replyHead+replyAnswer*s.asked[i]:]
			u.Remaining, u.Owed, u.Never = max(0, a[0]), max(0, -a[0]), a[1] == never
			u.RetryAfter = time.Duration(max(0, a[1])) * time.Microsecond
			u.Next = time.Duration(max(0, a[2])) * time.Microsecond
		}
		d.Limits[i] = u
	}
	for i, p := range s.States {
		if reply[3]>>i&1 == 1 && p.Fate&Attempts == 0 {
			p.Rates = nil
			d.Taken = append(d.Taken, p)
		}
	}
	return d, nil
}

// Change is what a settlement changes in a state that took a call's cost.
type Change struct {
	State
	By int64 // -Cost to MaxRequests: below 0 to give back, above 0 to charge more
}

// Settlement moves the call that was taken at an instant to its real cost. What it gives
// back leaves the entry of the call, and reaches nothing that was counted later. What it
// charges counts from the settlement on for a whole window, whether it fits or not.
type Settlement struct {
	Changes []Change
	At      int64  // Decision.At of the call, microseconds since 1970
	Reset   int64  // as in Step
	Record  string // as in Step: without its key nothing is settled; empty settles whenever it is asked
}

// Settle returns the settlement of a decision that gives back everything: the refund of a
// call that did not take place.
func (d Decision) Settle() Settlement {
	s := Settlement{At: d.At.UnixMicro()}
	for _, p := range d.Taken {
		s.Changes = append(s.Changes, Change{State: p, By: -p.Cost})
	}
	return s
}
