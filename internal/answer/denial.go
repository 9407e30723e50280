package answer

import (
	"fmt"
	"strconv"
	"time"

	"tidegate/internal/enforce"
)

// Denial says why a call is denied and when to retry.
type Denial struct {
	Type       string
	RetryAfter int64  // seconds, rounded up, at most MaxRetryAfter; 0 if no retry ever passes
	Wait       string // exact seconds, rounded up, for the body; never if no retry passes
	Detail     string
	Violated   []string // names of the limits that denied; never nil
	// Policy is the limit to observe, or the name of another reason. It has no characters
	// that JSON escapes.
	Policy string
	// Reference is the text by which an operator finds the denial; empty for none.
	Reference string
}

func (a Answer) denial(c enforce.Result, limits []named) Denial {
	switch {
	case !c.BannedUntil.IsZero():
		return deny(AbnormalUsage, c.RetryAfter(), "This caller is banned.", banPolicy, nil)
	case a.Limited:
		name := NameOf(a.Binding.Limit)
		return deny(QuotaExceeded, c.RetryAfter()+spread(a.Binding), "The limit of "+name+" is reached.",
			name, violated(limits))
	default:
		return deny(ReducedCapacity, c.RetryAfter(), cannotCheck, capacityPolicy, nil)
	}
}

// Unavailable returns the denial while the limits cannot be read. It names no limit.
func Unavailable() Denial {
	return deny(ReducedCapacity, time.Second, cannotCheck, capacityPolicy, nil)
}

// impossible returns the denial of a call that costs more than a limit ever admits. No
// save accepts such a limit, but an override may be older than a route's cost.
func impossible() Denial {
	return Denial{Type: QuotaExceeded, Wait: "never",
		Detail:   "This call costs more than its limit ever admits. It can never pass.",
		Violated: []string{}, Policy: costPolicy}
}

func deny(problem string, retryAfter time.Duration, reason, policy string, violated []string) Denial {
	if violated == nil {
		violated = []string{}
	}
	seconds, unit := WholeSeconds(retryAfter), "seconds"
	if seconds == 1 {
		unit = "second"
	}
	return Denial{
		Type: problem, RetryAfter: min(seconds, WholeSeconds(MaxRetryAfter)),
		Wait:     strconv.FormatInt(seconds, 10),
		Detail:   fmt.Sprintf("%s Retry after %d %s.", reason, seconds, unit),
		Violated: violated, Policy: policy,
	}
}

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

// The reasons for a denial that are no limits, as Policy names them.
const (
	banPolicy      = "ban"
	capacityPolicy = "capacity"
	costPolicy     = "cost"
)
