package records

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tidegate/internal/cause"
)

// Call is a decided call. It contains no credential, no whole address, and no part of a
// path that can identify a person.
type Call struct {
	Time time.Time
	// Caller is the caller's id: at most 64 bytes of UTF-8, without a colon, a brace or ~.
	// It is empty for a caller that proved nothing.
	Caller string
	// Registered says that the caller is in a registry of limited size, as API keys are.
	// Others, such as addresses, can be made up.
	Registered bool
	// Cause is 0 for an allowed call, and cause.Limit for a denied one. Any other cause
	// refuses the call.
	Cause     cause.Cause
	Cost      int64    // of an allowed call: 0 or more
	Limit     string   // in words, that denied the call; empty for another cause
	Plan      string   // of the caller
	Routes    []string // names of all routes that the call falls under
	Shadow    string   // the limit in shadow, in words, that would have denied an allowed call
	Degraded  bool     // decided without Valkey
	OldSecret bool     // with the previous secret
	// RetryAfter is how long further calls are denied. It is 0 if no retry passes, or if
	// that is unknown.
	RetryAfter time.Duration
	// NearFor is how long a limit of the caller may stay nearly used up without further
	// calls; 0 if none is.
	NearFor time.Duration

	// What a denied or refused call tells in the list of denials.
	Group, Reason, Method, Path, API, Stage string
	Network                                 netip.Prefix // a /24 or a /48
	Request                                 string       // API Gateway's id of the request
}

const (
	maxID      = 64  // bytes
	maxText    = 200 // bytes of a limit, a reason, a name
	maxRequest = 48  // bytes
)

// validID reports whether an id can be part of a key's name.
func validID(id string) bool {
	return id != "" && len(id) <= maxID && utf8.ValidString(id) &&
		!strings.ContainsFunc(id, func(r rune) bool {
			return r <= ' ' || r == ':' || r == '~' || r == '{' || r == '}' || r == 0x7f
		})
}

// clip cuts a text between two characters.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Letters that begin the kind of a count. A field of a hash is the number of its slot in
// the hash, and a kind.
const (
	allowedKind   = 'a'
	extraKind     = 'x' // sum of the costs of allowed calls, less their number
	deniedKind    = 'd' // then the limit, for a caller; the plan, a tab and the limit in limitsID
	shadowKind    = 's' // then as deniedKind
	refusedKind   = 'r' // then the number of the cause; for a caller a space and the reason
	degradedKind  = 'g'
	oldSecretKind = 'o'
	unlistedKind  = 'u' // only in totals: calls whose caller has no counts of its own
)

// kind returns the kind of the call's verdict in its caller's counts.
func (c *Call) kind() string {
	switch c.Cause {
	case 0:
		return string(allowedKind)
	case cause.Limit:
		return string(deniedKind) + clip(c.Limit, maxText)
	default:
	}
	kind := string(refusedKind) + strconv.Itoa(int(c.Cause))
	if c.Reason != "" {
		kind += " " + clip(c.Reason, maxText)
	}
	return kind
}

// banKind is the kind of calls of a banned caller.
var banKind = (&Call{Cause: cause.Ban}).kind()

// Kind is why calls were denied, refused, or would have been denied in shadow.
type Kind struct {
	// Cause is cause.Limit, cause.Shadow, or what refused.
	Cause cause.Cause `json:"cause" enum:"missing,malformed,unknown,revoked,expired,old-secret,address,access,limit,ban,unavailable,shadow"`
	Limit string      `json:"limit,omitempty" doc:"Limit that denied the calls, as in the client's response" example:"10 per 10 seconds"`
	// Plan is that of the callers. Of counts, only Reader.Limits has it.
	Plan   string `json:"plan,omitempty"`
	Reason string `json:"reason,omitempty" doc:"Claim, key or setting that is the cause, of refused tokens and the like" example:"claim aud has none of the configured audiences"`
}

// parseKind returns what a field's kind says. ok is false for other kinds.
func parseKind(text string) (k Kind, ok bool) {
	if text == "" {
		return k, false
	}
	rest := text[1:]
	switch text[0] {
	case deniedKind, shadowKind:
		k.Cause = cause.Limit
		if text[0] == shadowKind {
			k.Cause = cause.Shadow
		}
		if plan, limit, found := strings.Cut(rest, "\t"); found {
			k.Plan, rest = plan, limit
		}
		k.Limit = rest
		return k, true
	case refusedKind:
		number, reason, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(number, 10, 8)
		k.Cause, k.Reason = cause.Cause(n), reason
		return k, err == nil && k.Cause.String() != ""
	}
	return k, false
}

// Counts are numbers of calls. Calls is Allowed, Denied and Refused together; calls that
// other fields count are among them.
type Counts struct { //nolint:recvcheck // values are copied; add changes one in place
	Allowed   int64 `json:"allowed"`
	Denied    int64 `json:"denied" doc:"Calls that a limit denied"`
	Refused   int64 `json:"refused" doc:"Calls refused for any other cause: the credential, a ban, the address, no access, or Valkey unavailable"`
	Cost      int64 `json:"cost" doc:"Total cost of the allowed calls"`
	Shadow    int64 `json:"shadowDenied" doc:"Calls that a limit in shadow would have denied"`
	Degraded  int64 `json:"degraded" doc:"Calls decided while Valkey was unavailable"`
	OldSecret int64 `json:"-"` // with the previous secret
	Unlisted  int64 `json:"-"` // only in totals: callers without counts of their own
}

// Calls returns the number of calls.
func (c Counts) Calls() int64 { return c.Allowed + c.Denied + c.Refused }

// Plus returns the sum.
func (c Counts) Plus(d Counts) Counts {
	return Counts{
		c.Allowed + d.Allowed, c.Denied + d.Denied, c.Refused + d.Refused, c.Cost + d.Cost,
		c.Shadow + d.Shadow, c.Degraded + d.Degraded, c.OldSecret + d.OldSecret,
		c.Unlisted + d.Unlisted,
	}
}

// add adds n calls of a kind.
func (c *Counts) add(kind string, n int64) {
	switch kind[0] {
	case allowedKind:
		c.Allowed += n
		c.Cost += n
	case extraKind:
		c.Cost += n
	case deniedKind:
		c.Denied += n
	case refusedKind:
		c.Refused += n
	case shadowKind:
		c.Shadow += n
	case degradedKind:
		c.Degraded += n
	case oldSecretKind:
		c.OldSecret += n
	case unlistedKind:
		c.Unlisted += n
	}
}

// parseField splits a field of a hash of counts. ok is false for a field of another form.
func parseField(field string) (slot int64, kind string, ok bool) {
	digits := 0
	for digits < len(field) && field[digits] >= '0' && field[digits] <= '9' {
		digits++
	}
	slot, err := strconv.ParseInt(field[:digits], 10, 64)
	return slot, field[digits:], err == nil && digits < len(field)
}
