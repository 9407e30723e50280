package limiter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrReply means that a script's reply could not be understood.
var ErrReply = errors.New("limiter: unexpected reply")

const (
	replyHead  = 8  // verdict and time
	replyUsage = 26 // remaining, reset, retry-after and what comes next of one limit
	replyShort = 12 // remaining and what comes next
	maxMicros  = math.MaxInt64 / int64(time.Microsecond)
)

// ReplyCostTooHigh reports whether an encoded reply is no Decision but says that the cost
// is above a limit.
func ReplyCostTooHigh(reply []byte) bool { return len(reply) == replyHead && reply[0] == 2 }

// ParseReply decodes what a script made by Script returns about these limits.
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
	if len(reply) > long { // of a refund
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

// next returns the microseconds until Remaining rises, from the two numbers that a reply
// ends a limit with: of a log the upper and the lower half of just that, of a counter the
// previous and the current count, of a token bucket the part of a microsecond by which it
// is full before Reset has passed.
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

// resetAfterCall returns the reset of a limit, other than a token bucket or one with a
// calendar, of which a call was just taken.
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
