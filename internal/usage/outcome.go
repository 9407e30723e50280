package usage

import (
	"strings"
	"time"
	"unicode/utf8"

	"tidegate/internal/usage/denylog"
	"tidegate/internal/usage/routecount"
)

// Verdict says how a call was answered. The zero value is an allowed call; flags add up,
// as in Denied|Degraded.
type Verdict uint8

// Allowed is a call that was let in and of which nothing else is to be said.
const Allowed Verdict = 0

// The flags of a Verdict.
const (
	Denied          Verdict = 1 << iota // not let in
	ShadowDenied                        // a limit in shadow mode would have denied it
	CandidateDenied                     // a candidate limit would have denied it
	Degraded                            // decided without the store
	OldSecret                           // with the secret from before the last rotation
)

// Outcome is one call.
type Outcome struct {
	// Subject is the caller's id: without a colon, at most 64 bytes of UTF-8. A call of
	// any other, or of none, counts in the totals alone.
	Subject string
	// Registered says that the subject is in a registry that bounds how many there are,
	// as API keys are. A flood of subjects that anybody can make up, such as addresses,
	// does not crowd it out.
	Registered bool
	Verdict    Verdict
	Cost       int64    // less than 1 means 1
	Rules      []string // ids of the rules that applied, written as subjects are
	Time       time.Time
	// Route counts for previews of access; without a plan it counts for nothing. Only
	// patterns that the operator made may be in it, so that no caller makes up routes.
	Route routecount.Route
	// Denial says why the call was denied, for the denial log; nil keeps it out of there.
	// With a cause that refuses a credential it counts as a refusal, not as a call;
	// Subject is a registered caller that proved its key then, or empty.
	Denial *denylog.Denial
	// DeniedUntil is until when further calls of the subject are denied, as far as this
	// one shows: it was denied, or took the last of a limit. Zero when the next may pass.
	DeniedUntil time.Time
	// NearUntil is until when a limit of the subject may stay nearly used up if nobody
	// calls. Zero when none is.
	NearUntil time.Time
}

const maxIDLen = 64

// validID: an id becomes part of a key's name.
func validID(id string) bool {
	return id != "" && len(id) <= maxIDLen && utf8.ValidString(id) &&
		!strings.ContainsFunc(id, func(r rune) bool {
			return r <= ' ' || r == ':' || r == '~' || r == '{' || r == '}' || r == 0x7f
		})
}
