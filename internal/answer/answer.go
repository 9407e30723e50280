// Package answer turns the result of a check into what clients read: the RateLimit fields
// of draft-ietf-httpapi-ratelimit-headers and an RFC 9457 problem. Packages that answer
// calls import it. It decides nothing and does no I/O.
package answer

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"tidegate/internal/enforce"
)

// Answer is the result of a check as its client sees it. It contains no limit in shadow.
type Answer struct {
	RateLimit       string             // field of that name; empty if no limit is enforced
	RateLimitPolicy string             // field RateLimit-Policy; empty if no limit is enforced
	Binding         enforce.LimitState // the limit to observe, if Limited
	Limited         bool               // a limit is enforced
	Denial          *Denial            // nil if the call passes
}

// To returns the answer to a check.
func To(c enforce.Result) Answer {
	if !c.Allowed && c.BannedUntil.IsZero() && c.Never() {
		denial := impossible()
		denial.Reference = c.Reference
		return Answer{Denial: &denial}
	}
	limits := reported(c.Limits)
	a := Answer{RateLimit: stateField(limits), RateLimitPolicy: policyField(limits)}
	a.Binding, a.Limited = c.Binding()
	if !c.Allowed {
		denial := a.denial(c, limits)
		denial.Reference = c.Reference
		a.Denial = &denial
	}
	return a
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

// MaxSpread bounds how much later than the instant at which a limit that callers share
// frees a call its denials ask the callers to retry: half of its window, at most this.
const MaxSpread = time.Minute

// spread returns a random time to add to Retry-After, so that callers who wait for the
// same limit do not all come back at once; 0 for a limit of the caller's own.
func spread(l enforce.LimitState) time.Duration {
	if !l.Shared() {
		return 0
	}
	return rand.N(min(l.Span()/2, MaxSpread) + 1) //nolint:gosec // a wait is no secret
}

// MaxRetryAfter bounds the field Retry-After. Clients sleep for days without a word, and
// timers of 31 bits, as in JavaScript, overflow after 24.8 days and retry at once.
const MaxRetryAfter = 24 * time.Hour

// WholeSeconds returns d in seconds, rounded up, so that a client that waits for them
// never retries too early.
func WholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

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
		Type: problem, RetryAfter: min(seconds, WholeSeconds(MaxRetryAfter)),
		Wait:     strconv.FormatInt(seconds, 10),
		Detail:   fmt.Sprintf("%s Retry after %d %s.", reason, seconds, unit),
		Violated: violated, Policy: policy,
	}
}
