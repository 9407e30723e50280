package answer

import (
	"math/rand/v2"
	"time"

	"tidegate/internal/enforce"
)

// MaxRetryAfter bounds the field Retry-After. Clients sleep for days without a word, and
// timers of 31 bits, as in JavaScript, overflow after 24.8 days and retry at once.
const MaxRetryAfter = 24 * time.Hour

// WholeSeconds returns d in seconds, rounded up, so that a client that waits for them
// never retries too early.
func WholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// spread returns a random time to add to Retry-After, so that callers who wait for the
// same limit do not all come back at once; 0 for a limit of the caller's own.
func spread(l enforce.LimitState) time.Duration {
	if !l.Shared() {
		return 0
	}
	return rand.N(min(l.Span()/2, MaxSpread) + 1) //nolint:gosec // a wait is no secret
}

// MaxSpread bounds how much later than the instant at which a limit that callers share
// frees a call its denials ask the callers to retry: half of its window, at most this.
const MaxSpread = time.Minute
