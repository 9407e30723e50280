package answer

import (
	"fmt"
	"time"
)

// The type of a denial, RFC 9457's: over a quota, or nothing that has a name.
const (
	QuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	AboutBlank    = "about:blank"
)

// Unauthorized is what a call is told that has no good credential, whatever is wrong with it.
const Unauthorized = "A valid credential is required."

const cannotCheck = "The limits cannot be checked right now."

// Denial says why a call was denied and when to come back.
type Denial struct {
	Type       string
	RetryAfter int64 // whole seconds, rounded up; 0 when there is nothing to wait for
	Detail     string
	Violated   []string // names of the limits that denied; never nil
}

// Unavailable is the denial while the limits cannot be read: nobody is let in, and nobody is told that a limit was reached.
func Unavailable() Denial { return deny(AboutBlank, time.Second, cannotCheck, nil) }

// Impossible is the denial of a call that costs more than a limit ever admits. No save allows a plan or a route like that; an override older than the
// route's cost can come to it.
func Impossible() Denial {
	return Denial{Type: QuotaExceeded, Detail: "This call costs more than its limit ever admits. It can never pass.", Violated: []string{}}
}

func deny(problem string, retryAfter time.Duration, reason string, violated []string) Denial {
	if violated == nil {
		violated = []string{}
	}
	seconds, unit := WholeSeconds(retryAfter), "seconds"
	if seconds == 1 {
		unit = "second"
	}
	return Denial{Type: problem, RetryAfter: seconds, Detail: fmt.Sprintf("%s Retry after %d %s.", reason, seconds, unit), Violated: violated}
}
