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
	// Owed is what was taken above the limit, at most Limit.Requests. It drains with the
	// window; until then the limit denies.
	Owed int64
	// Since is set if the limit could not count every call of its present window: it has
	// counted since then.
	Since time.Time
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
	u.Remaining = min(u.Remaining+u.Limit.Charge(cost), u.Limit.Requests)
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

// A reply begins with one of these verdicts.
const (
	verdictDenied  = 0
	verdictAllowed = 1
	verdictTooHigh = 2 // the cost is above an enforced limit; only the time follows
)

// Bytes of a reply: the verdict and the server's time, then for each limit the remaining
// cost, reset, retry-after, two numbers for Usage.next and since.
const (
	replyHead  = 1 + 7
	replyUsage = 4 + 7 + 7 + 4 + 4 + 4
	owedMark   = 1 << 31 // added in place of the remaining cost to what is owed
)

const maxMicros = math.MaxInt64 / int64(time.Microsecond)

// ReplyCostTooHigh reports whether a reply has no Decision, because the cost is above an
// enforced limit.
func ReplyCostTooHigh(reply []byte) bool {
	return len(reply) == replyHead && reply[0] == verdictTooHigh
}

// ParseReply decodes the reply of a script that uses Script, LookScript or StepFunction.
// limits are those of its program. For ErrCost the Decision has only Now.
func ParseReply(reply []byte, limits []Limit) (Decision, error) {
	if ReplyCostTooHigh(reply) {
		return Decision{Now: time.UnixMicro(uint56(reply[1:])).UTC()},
			fmt.Errorf("%w: above the limit", ErrCost)
	}
	length := replyHead + replyUsage*len(limits)
	if len(reply) != length && len(reply) != length+4 || reply[0] > verdictAllowed {
		return Decision{}, fmt.Errorf("%w: %d bytes for %d limits", ErrReply, len(reply), len(limits))
	}
	d := Decision{Allowed: reply[0] == verdictAllowed, Now: time.UnixMicro(uint56(reply[1:])).UTC(),
		Limits: make([]Usage, len(limits))}
	if len(reply) > length { // the reply to a refund
		d.Unreturned = int64(binary.BigEndian.Uint32(reply[length:]))
	}
	for i, l := range limits {
		b := reply[replyHead+replyUsage*i:]
		u := Usage{Limit: l, Remaining: int64(binary.BigEndian.Uint32(b))}
		if u.Remaining >= owedMark {
			u.Remaining, u.Owed = 0, u.Remaining-owedMark
		}
		reset, retry := uint56(b[4:]), uint56(b[11:])
		next := u.next(d.Now.UnixMicro(), reset, binary.BigEndian.Uint32(b[18:]),
			binary.BigEndian.Uint32(b[22:]))
		if max(reset, retry, next) > maxMicros {
			return Decision{}, fmt.Errorf("%w: a time out of range", ErrReply)
		}
		u.Reset, u.RetryAfter, u.Next = micros(reset), micros(retry), micros(next)
		if since := binary.BigEndian.Uint32(b[26:]); since > 0 {
			u.Since = time.Unix(int64(since), 0).UTC()
		}
		d.Limits[i] = u
	}
	return d, nil
}

// next returns the microseconds until Remaining rises, from reset (microseconds) and the
// two numbers that a reply has for a limit. For a log they are the upper and lower 32 bits
// of that time; for a counter the previous and the current count. For a token bucket the
// first is the part of its debt below a microsecond, which reset rounds up.
func (u Usage) next(now, reset int64, first, second uint32) int64 {
	more := u.Remaining + 1
	p := part{sectionID: sectionID{window: u.Limit.Window.Microseconds(), group: u.Limit.Requests}}
	switch {
	case more > u.Limit.Requests:
		return 0
	case u.Limit.Algorithm == Counter:
		p.start, p.prev, p.cur = now-now%p.window, int64(first), int64(second)
		_, _, next := p.counterUsage(now, u.Limit.Requests, more)
		return next
	case u.Limit.Algorithm == TokenBucket:
		p.whole, p.part = now+reset, int64(first)
		if first > 0 {
			p.whole--
		}
		return p.bucketRetry(now, more)
	case u.Limit.Algorithm == FixedWindow:
		return reset
	}
	return int64(first)<<32 | int64(second)
}
