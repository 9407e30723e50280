package policy

import (
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/route"
)

// Status says whether a key may call.
type Status string

// The states of a key.
const (
	Active  Status = "active"
	Revoked Status = "revoked"
	// Unreadable is a key whose record this version of Tidegate cannot read: only its ID
	// and Name are known, and it can only be deleted.
	Unreadable Status = "unreadable"
)

// Kind says what a subject is known by.
type Kind string

// The kinds of subjects.
const (
	APIKey  Kind = "key"     // a secret of ours
	Token   Kind = "token"   // a JWT; its subject has a record only if it has an override or a ban
	Address Kind = "address" // a client address; likewise
)

// Key is a subject as the registry knows it: an API key without its secret, or the
// override and ban of a caller that others vouch for.
type Key struct {
	// of an API key 12 base62 characters: the public part of the secret, also the
	// principal that backends see
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	Name string `json:"name"` // 1 to 100 characters, for people
	// the env part of tg_<env>_…, 1 to 16 lower-case letters or digits
	Env string `json:"env,omitempty"`
	// Foreign marks an API key whose value another system made, until it is rotated.
	Foreign bool     `json:"foreign,omitempty"`
	Tags    []string `json:"tags,omitempty"` // up to 10, each 1 to 50 characters
	// name of the plan; empty for a Token or Address whose plan comes with the call
	Plan string `json:"plan"`
	// Group is what an API key shares the limits per group of its plan with, such as a
	// customer: see GroupProblem. Empty for none.
	Group    string    `json:"group,omitempty"`
	Status   Status    `json:"status"` // Active or Revoked; in a list also Unreadable
	Override *Override `json:"override,omitempty"`
	// Allow is the routes that an API key may call, of those that its plan opens, up to
	// MaxAllow; none for all of them.
	Allow   []route.Pattern `json:"allow,omitempty"`
	Expires time.Time       `json:"expires,omitzero"`     // zero: never
	Banned  time.Time       `json:"bannedUntil,omitzero"` // zero: not banned
	// Grace is until when the secret before the last rotation is good; zero: it is not.
	Grace   time.Time `json:"graceUntil,omitzero"`
	Version int64     `json:"version"` // 1 at creation, one more with each edit
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`

	PlanNumber int `json:"-"` // as stored; Plan is its name
}

// Override replaces the limits and the mode of a key's plan.
type Override struct {
	Limits []limiter.Limit `json:"limits,omitempty"` // 1 to limiter.MaxLimits; none with mode Off
	Mode   Mode            `json:"mode,omitempty"`
	// when the plan is back in force; zero: no end
	Until  time.Time `json:"until,omitzero"`
	Reason string    `json:"reason"` // 1 to 200 characters, for people
}

// ActiveAt reports whether the override is in force at t.
func (o *Override) ActiveAt(t time.Time) bool {
	return o != nil && (o.Until.IsZero() || t.Before(o.Until))
}

// NewKey describes an API key to create. Name, Env and Plan are required.
type NewKey struct {
	Name    string          `json:"name"`
	Env     string          `json:"env"`
	Plan    string          `json:"plan"`
	Tags    []string        `json:"tags,omitempty"`
	Group   string          `json:"group,omitempty"` // as in Key
	Expires time.Time       `json:"expires,omitzero"`
	Allow   []route.Pattern `json:"allow,omitempty"` // as in Key
	// Status is Active or Revoked; empty for Active.
	Status Status `json:"status,omitempty"`
	// Value is the key's text when another system made it; empty for a new one.
	Value string `json:"-"`
}

// String leaves the value out.
func (n NewKey) String() string { return "new key " + n.Name }

// GoString is String.
func (n NewKey) GoString() string { return n.String() }

// Effective is what holds for a key at an instant, and why.
type Effective struct {
	Limits []limiter.Limit `json:"limits"`
	Mode   Mode            `json:"mode"`
	Source string          `json:"source"` // "override" or "plan"
	Plan   Plan            `json:"plan"`   // also beneath an override
}

// Effective returns what holds for k at t. It is false when its plan does not exist. A
// caller that others vouch for and that has no plan of its own has the one that is meant
// for its kind; a token may name another.
func (s *Set) Effective(k Key, t time.Time) (Effective, bool) {
	p, ok := s.EffectivePlan(k)
	if k.Override.ActiveAt(t) {
		return Effective{k.Override.Limits, OrEnforce(k.Override.Mode), "override", p}, true
	}
	return Effective{p.Limits, OrEnforce(p.Mode), "plan", p}, ok
}

// EffectivePlan returns the plan that holds for k, also beneath an override.
func (s *Set) EffectivePlan(k Key) (Plan, bool) {
	switch {
	case k.Plan != "":
		return s.Plan(k.Plan)
	case k.Kind == Token:
		return s.Plan(s.TokenPlan)
	case k.Kind == Address:
		return s.Plan(s.AddressPlan)
	}
	return s.Plan("")
}
