package limiter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Usage is the state of one limit at the instant of a Decision.
type Usage struct {
	Limit Limit
	// Remaining is the cost that could still be taken from this limit now: 0 to
	// Limit.Requests. After an allowed Take it excludes the cost of that call.
	Remaining int64
	// Reset is the time until this limit's window is empty if nobody calls again; 0 if it
	// is empty now.
	Reset time.Duration
	// Next is the time until Remaining rises if nobody calls again; 0 if the window is
	// empty.
	Next time.Duration
	// RetryAfter is the time until the same cost would pass this limit if nobody else
	// calls; 0 if it passes now. It is MaxWindow for a limit in shadow mode whose
	// Requests are fewer than the cost.
	RetryAfter time.Duration
}

// Used returns the cost taken from the limit. Remaining plus Used is Limit.Requests.
func (u Usage) Used() int64 { return u.Limit.Requests - u.Remaining }

// NearlyUsedUp reports whether at most a fifth of the limit remains.
func (u Usage) NearlyUsedUp() bool { return u.Remaining <= u.Limit.Requests/5 }

// Returned returns the usage after a refund of cost. Next is 0 if nothing is used, and
// for a Counter, whose next rise is then unknown.
func (u Usage) Returned(cost int64) Usage {
	u.Remaining = min(u.Remaining+cost, u.Limit.Requests)
	if u.Remaining == u.Limit.Requests || u.Limit.Algorithm == Counter {
		u.Next = 0
	}
	return u
}

// Decision is the answer to one Take or Peek. A denial is a Decision, not an error.
type Decision struct {
	// Allowed reports whether every enforced limit admitted the cost. If it is false,
	// nothing was taken from any limit.
	Allowed bool
	// Now is the instant of the decision on the server's clock, to the microsecond.
	Now time.Time
	// Limits has every limit of the subject, in the order of the program.
	Limits []Usage
	// Unreturned is the part of a refunded cost that a limit may still count: the largest
	// over all limits. It is 0 if no limit counts any of it, and for a Decision not made
	// by Refund.
	Unreturned int64
}

// WouldAllow reports whether every limit admitted the cost, including those in shadow
// mode.
func (d Decision) WouldAllow() bool {
	return d.Allowed && !slices.ContainsFunc(d.Limits, Usage.Exceeded)
}

// Exceeded returns a mask of the limits in shadow mode that a cost exceeded, with bit i
// for limit i. Nothing was taken from them, so a refund must spare them
// (Program.Sparing).
func Exceeded(limits []Usage) (exceeded byte) {
	for i, u := range limits {
		if u.Exceeded() {
			exceeded |= 1 << i
		}
	}
	return exceeded
}

// Exceeded reports whether a limit in shadow mode would have denied the cost.
func (u Usage) Exceeded() bool { return u.Limit.Shadow && u.RetryAfter > 0 }

// Binding returns the enforced limit that matters most to a client: for a denial the one
// with the longest RetryAfter, otherwise the one with the smallest share remaining. It
// returns the zero Usage if no limit is enforced.
func (d Decision) Binding() Usage {
	var b Usage
	for _, u := range d.Limits {
		if !u.Limit.Shadow && (b.Limit.Requests == 0 || Binds(d.Allowed, u, b)) {
			b = u
		}
	}
	return b
}

// RetryAfter returns the time until the same cost would be allowed if nobody else calls;
// 0 if it was allowed.
func (d Decision) RetryAfter() time.Duration {
	var longest time.Duration
	for _, u := range d.Limits {
		if !u.Limit.Shadow {
			longest = max(longest, u.RetryAfter)
		}
	}
	return longest
}

// Binds reports whether u matters more to a client than b, as Decision.Binding defines
// it.
func Binds(allowed bool, u, b Usage) bool {
	if !allowed {
		return u.RetryAfter > b.RetryAfter
	}
	return u.Remaining*b.Limit.Requests < b.Remaining*u.Limit.Requests
}

// ErrReply means that a script's reply could not be decoded.
var ErrReply = errors.New("limiter: unexpected reply")

// Bytes of an encoded Decision.
const (
	replyHead  = 8  // verdict and time
	replyUsage = 26 // one limit: remaining, reset, retry-after, and two numbers for Usage.next
	replyShort = 12 // one limit in the short form: remaining, and two numbers for Usage.next
)

const maxMicros = math.MaxInt64 / int64(time.Microsecond)

// ReplyCostTooHigh reports whether a reply has no Decision, because the cost is above an
// enforced limit.
func ReplyCostTooHigh(reply []byte) bool { return len(reply) == replyHead && reply[0] == 2 }

// ParseReply decodes the reply of a script that uses Script or StepFunction. limits are
// those of its program.
func ParseReply(reply []byte, limits []Limit) (Decision, error) {
	if ReplyCostTooHigh(reply) {
		return Decision{}, fmt.Errorf("%w: above the limit", ErrCost)
	}
	short := len(reply) == replyHead+replyShort*len(limits) && reply[0] == 3
	long := replyHead + replyUsage*len(limits)
	if !short && (len(reply) != long && len(reply) != long+4 || reply[0] > 1) {
		return Decision{}, fmt.Errorf("%w: %d bytes for %d limits", ErrReply, len(reply), len(limits))
	}
	d := Decision{Allowed: reply[0] != 0, Now: time.UnixMicro(uint56(reply[1:])).UTC(),
		Limits: make([]Usage, len(limits))}
	size := replyUsage
	if short {
		size = replyShort
	}
	if len(reply) > long { // the reply to a refund
		d.Unreturned = int64(binary.BigEndian.Uint32(reply[long:]))
	}
	for i, l := range limits {
		b := reply[replyHead+size*i:]
		u := Usage{Limit: l, Remaining: int64(binary.BigEndian.Uint32(b))}
		if short {
			u.Reset = l.resetAfterCall(d.Now)
		} else {
			reset, retry := uint56(b[4:]), uint56(b[11:])
			if reset > maxMicros || retry > maxMicros {
				return Decision{}, fmt.Errorf("%w: a time out of range", ErrReply)
			}
			u.Reset, u.RetryAfter = micros(reset), micros(retry)
		}
		next := u.next(d.Now.UnixMicro(), binary.BigEndian.Uint32(b[size-8:]),
			binary.BigEndian.Uint32(b[size-4:]))
		if next > maxMicros {
			return Decision{}, fmt.Errorf("%w: a time out of range", ErrReply)
		}
		u.Next = micros(next)
		d.Limits[i] = u
	}
	return d, nil
}

// next returns the microseconds until Remaining rises, from the last two numbers that a
// reply has for a limit. For a log they are the upper and lower 32 bits of that time; for
// a counter the previous and the current count. For a token bucket the first is the part
// of its debt below a microsecond, which Reset rounds up.
func (u Usage) next(now int64, first, second uint32) int64 {
	span, more := u.Limit.Window.Microseconds(), u.Remaining+1
	switch {
	case more > u.Limit.Requests:
		return 0
	case u.Limit.Algorithm == Counter:
		st := state{start: now - now%span, prev: int64(first), cur: int64(second)}
		_, _, next := st.counterUsage(span, now, u.Limit.Requests, more)
		return next
	case u.Limit.Algorithm == TokenBucket:
		st := state{whole: now + u.Reset.Microseconds(), part: int64(first)}
		if first > 0 {
			st.whole--
		}
		return st.bucketRetry(span, now, u.Limit.Requests, more)
	case u.Limit.Algorithm == FixedWindow:
		return u.Reset.Microseconds()
	}
	return int64(first)<<32 | int64(second)
}

// resetAfterCall returns the reset of a limit just after an admitted call. Token buckets
// and calendars have no short reply.
func (l Limit) resetAfterCall(now time.Time) time.Duration {
	switch l.Algorithm {
	case Counter:
		return micros(2*l.Window.Microseconds() - now.UnixMicro()%l.Window.Microseconds())
	case FixedWindow:
		return micros(l.Window.Microseconds() - now.UnixMicro()%l.Window.Microseconds())
	default:
		return l.Window
	}
}
