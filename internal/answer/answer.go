// Package answer puts the outcome of a check into what clients get: the RateLimit fields of draft-ietf-httpapi-ratelimit-headers, and why a call was
// denied, in the words of an RFC 9457 problem.
package answer

import (
	"fmt"
	"strings"
	"time"

	"tidegate/internal/policy"
)

// The type of a denial: over a quota, or nothing that has a name.
const (
	QuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	AboutBlank    = "about:blank"
)

// Denial says why a call was denied and when to come back.
type Denial struct {
	Type       string
	RetryAfter int64 // whole seconds, rounded up
	Detail     string
	Violated   []string // names of the limits that denied; never nil
}

// Denied returns why a check denied a call. It is meaningless for one that was allowed.
func Denied(c policy.Checked) Denial {
	if !c.BannedUntil.IsZero() {
		return Deny(AboutBlank, c.RetryAfter(), "This caller is banned.", nil)
	}
	binding, _ := c.Binding()
	return Deny(QuotaExceeded, c.RetryAfter(), fmt.Sprintf("The limit of %s is reached.", NameOf(binding)), violated(c))
}

// Deny makes a Denial of a reason, which is a sentence.
func Deny(problem string, retryAfter time.Duration, reason string, violated []string) Denial {
	if violated == nil {
		violated = []string{}
	}
	seconds, unit := WholeSeconds(retryAfter), "seconds"
	if seconds == 1 {
		unit = "second"
	}
	return Denial{Type: problem, RetryAfter: seconds, Detail: fmt.Sprintf("%s Retry after %d %s.", reason, seconds, unit), Violated: violated}
}

func violated(c policy.Checked) []string {
	var names []string
	for _, l := range c.Limits {
		if l.RetryAfter > 0 && l.Mode == policy.Enforce {
			names = append(names, NameOf(l))
		}
	}
	return names
}

// RateLimitPolicy returns the RateLimit-Policy field: each limit by name, its quota and its window in seconds, rounded up.
func RateLimitPolicy(c policy.Checked) string {
	items := make([]string, len(c.Limits))
	for i, l := range c.Limits {
		items[i] = fmt.Sprintf("%q;q=%d;w=%d", NameOf(l), l.Limit.Requests, WholeSeconds(l.Limit.Span()))
	}
	return strings.Join(items, ", ")
}

// RateLimit returns the RateLimit field: what remains of each limit, and the seconds until there is more: on a limit that denied the instant of
// Retry-After, otherwise the end of its window.
func RateLimit(c policy.Checked) string {
	items := make([]string, len(c.Limits))
	for i, l := range c.Limits {
		wait := l.Reset
		if l.RetryAfter > 0 {
			wait = l.RetryAfter
		}
		items[i] = fmt.Sprintf("%q;r=%d;t=%d", NameOf(l), l.Remaining, WholeSeconds(wait))
	}
	return strings.Join(items, ", ")
}

// NameOf is what clients know a limit by; it says on what the limit is unless that is the caller.
func NameOf(l policy.Applied) string {
	if l.Scope == policy.ScopeKey {
		return l.Limit.String()
	}
	return l.Scope + " " + l.Limit.String()
}

// WholeSeconds rounds up: a client that waits them out never comes too early.
func WholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
