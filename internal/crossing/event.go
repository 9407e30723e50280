package crossing

import (
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"strconv"
	"time"

	"tidegate/internal/answer"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/telemetry"
)

// Event is that a call took what is used of a limit to a threshold. It holds no
// credential and no address.
type Event struct {
	Time time.Time `json:"time"` // Valkey's
	// KeyID, KeyName, Group and Plan are of the caller; one without a record has no name.
	KeyID   string `json:"key"`
	KeyName string `json:"name,omitempty"`
	Group   string `json:"group,omitempty"`
	Plan    string `json:"plan,omitempty"`
	Rule    string `json:"rule,omitempty"` // route rule of the call
	// Scope is what the limit is on, as in enforce.LimitState; Subject is its id: of the
	// caller, of a network (an HMAC), of a route, of a group.
	Scope     string    `json:"scope"`
	Subject   string    `json:"subject"`
	Limit     string    `json:"limit"`     // as clients know it
	Threshold int       `json:"threshold"` // percent
	Used      int64     `json:"used"`      // with the call
	Max       int64     `json:"max"`
	Resets    time.Time `json:"resets"` // when the limit is unused, if nobody calls

	registered bool
}

// Call is whose call crossed something.
type Call struct {
	KeyID, KeyName, Group, Plan, Rule string
	Registered                        bool // it has an API key
}

// ResultOf is what a check's result says of its call.
func ResultOf(r *enforce.Result, kind policy.Kind) Call {
	return Call{KeyID: r.ID, KeyName: r.Name, Group: r.Group, Plan: r.Plan, Rule: r.Rule,
		Registered: kind == policy.APIKey}
}

// SettlementOf is what a settlement says of its call.
func SettlementOf(s *enforce.Settlement) Call {
	return Call{KeyID: s.ID, KeyName: s.Name, Group: s.Group, Plan: s.Plan, Rule: s.Rule, Registered: true}
}

func (c Call) event(x enforce.Crossing) Event {
	own := x.Scope == policy.ScopeKey || x.Scope == policy.ScopeRoute || x.Scope == policy.ScopeGroup
	everybody := x.Scope == policy.ScopeGlobal || x.Scope == policy.ScopeRouteAll
	return Event{
		Time: x.At, KeyID: c.KeyID, KeyName: c.KeyName, Group: c.Group, Plan: c.Plan, Rule: c.Rule,
		Scope: x.Scope, Subject: x.Subject,
		Limit:     answer.NameOf(enforce.LimitState{Usage: x.Usage, Scope: x.Scope}),
		Threshold: x.Percent, Used: x.Used(), Max: x.Limit.Requests, Resets: x.At.Add(x.Reset),
		registered: everybody || own && c.Registered,
	}
}

// mark names what is reported once: a threshold of a limit on a subject.
func (e *Event) mark() string {
	h := sha256.New()
	for _, part := range []string{e.Subject, e.Scope, e.owner(), e.Limit, strconv.Itoa(e.Threshold)} {
		h.Write(append([]byte{byte(len(part) >> 8), byte(len(part))}, part...))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// owner distinguishes limits of the same numbers: those of a rule, and those of a plan on
// a group. A plan's own are the same on any route.
func (e *Event) owner() string {
	switch e.Scope {
	case policy.ScopeRoute, policy.ScopeRouteIP:
		return e.Rule
	case policy.ScopeGroup:
		return e.Plan
	}
	return ""
}

// Message is that of lines that say that a limit was crossed.
const Message = "limit crossed"

// attrs are the fields of the event's line. docs/alerts.md lists them.
func (e *Event) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("event", telemetry.LimitCrossed), slog.String("key_id", e.KeyID),
		slog.String("key_name", e.KeyName),
		slog.String("group", e.Group),
		slog.String("plan", e.Plan), slog.String("rule", e.Rule), slog.String("scope", e.Scope),
		slog.String("subject", e.Subject), slog.String("limit", e.Limit),
		slog.Int("threshold", e.Threshold), slog.Int64("used", e.Used), slog.Int64("max", e.Max),
		slog.String("resets", e.Resets.UTC().Format(time.RFC3339)),
		slog.String("crossed", e.Time.UTC().Format("2006-01-02T15:04:05.000Z")),
	}
}
