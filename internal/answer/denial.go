package answer

import (
	"fmt"
	"strconv"
	"time"
)

// The problem types (RFC 9457) of draft-ietf-httpapi-ratelimit-headers, section "Problem
// Types".
const (
	QuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	ReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	AbnormalUsage   = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
)

// Unauthorized is the detail of every 401. It does not say what is wrong with the
// credential.
const Unauthorized = "A valid credential is required."

const cannotCheck = "The limits cannot be checked right now."

// Denial says why a call is denied and when to retry.
type Denial struct {
	Type       string
	RetryAfter int64 // whole seconds, rounded up; 0 when a retry never passes
	Detail     string
	Violated   []string // names of the limits that denied; never nil
	// Policy is the limit to observe, or the name of another reason. It has no characters
	// that JSON escapes.
	Policy string
}

// Unavailable is the denial while the limits cannot be read. It names no limit.
func Unavailable() Denial {
	return deny(ReducedCapacity, time.Second, cannotCheck, capacityPolicy, nil)
}

// Impossible is the denial of a call that costs more than a limit ever admits. No save
// accepts such a plan or route, but an override may be older than a route's cost.
func Impossible() Denial {
	return Denial{Type: QuotaExceeded,
		Detail:   "This call costs more than its limit ever admits. It can never pass.",
		Violated: []string{}, Policy: costPolicy}
}

// Wait returns RetryAfter for the body of a REST API's 429, where the value must not be
// empty.
func (d Denial) Wait() string {
	if d.RetryAfter == 0 {
		return "never"
	}
	return strconv.FormatInt(d.RetryAfter, 10)
}

// The reasons for a denial that are no limits, as Policy names them.
const (
	banPolicy      = "ban"
	capacityPolicy = "capacity"
	costPolicy     = "cost"
)

func deny(problem string, retryAfter time.Duration, reason, policy string, violated []string) Denial {
	if violated == nil {
		violated = []string{}
	}
	seconds, unit := WholeSeconds(retryAfter), "seconds"
	if seconds == 1 {
		unit = "second"
	}
	return Denial{
		Type: problem, RetryAfter: seconds,
		Detail:   fmt.Sprintf("%s Retry after %d %s.", reason, seconds, unit),
		Violated: violated, Policy: policy,
	}
}
