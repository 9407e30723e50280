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

// Denial says why a call was denied and when to come back.
type Denial struct {
	Type       string
	RetryAfter int64 // whole seconds, rounded up; 0 when there is nothing to wait for
	Detail     string
	Violated   []string // names of the limits that denied; never nil
	// the one of them to heed, or what else denied: a name without characters that JSON
	// escapes
	Policy string
}

// Unavailable is the denial while the limits cannot be read: nobody is let in, and it
// names no limit.
func Unavailable() Denial {
	return deny(ReducedCapacity, time.Second, cannotCheck, capacityPolicy, nil)
}

// Impossible is the denial of a call that costs more than a limit ever admits. No save
// allows a plan or a route like that; an override older than the route's cost can come to
// it.
func Impossible() Denial {
	return Denial{Type: QuotaExceeded,
		Detail:   "This call costs more than its limit ever admits. It can never pass.",
		Violated: []string{}, Policy: costPolicy}
}

// Wait is RetryAfter as the body of a REST API's 429 has it, where a value must always be
// there.
func (d Denial) Wait() string {
	if d.RetryAfter == 0 {
		return "never"
	}
	return strconv.FormatInt(d.RetryAfter, 10)
}

// What denies that is no limit, as Policy names it.
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
