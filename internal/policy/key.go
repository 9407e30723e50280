package policy

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/route"
)

// Key is a subject as the registry stores it: an API key without its secret, or the
// override and ban of a caller with a token or an address.
type Key struct {
	// of an API key: the public part of the secret, 12 base62 characters, which backends
	// see as the principal
	ID   string `json:"id"`
	Kind Kind   `json:"kind" enum:"key,token,address"`
	Name string `json:"name"` // 1 to 100 characters, for people
	// the env in tg_<env>_…, 1 to 16 lower-case letters or digits
	Env string `json:"env,omitempty"`
	// Foreign is whether another system made the API key's value; false after a rotation.
	Foreign bool     `json:"foreign,omitempty" doc:"The key's value comes from another system"`
	Tags    []string `json:"tags,omitempty"` // up to 10, each 1 to 50 characters
	// name of the plan; empty for a Token or Address whose plan depends on the call
	Plan string `json:"plan"`
	// Group is the group of an API key, for example a customer; empty for none. Its keys
	// share the limits of each group. GroupProblem says which names are valid.
	Group    string    `json:"group,omitempty" doc:"Group whose keys share the limits of each group"`
	Status   Status    `json:"status" enum:"active,revoked,unreadable"` // Active or Revoked; in a list also Unreadable
	Override *Override `json:"override,omitempty"`
	// Opens has the routes that an API key may call, of those that its plan opens, up to
	// MaxOpens; empty for all.
	Opens   []route.Pattern `json:"opens,omitempty" doc:"Routes that the key may call, among those of its plan; if omitted, all of them"`
	Expires time.Time       `json:"expires,omitzero" required:"false"`                          // zero: never
	Banned  time.Time       `json:"bannedUntil,omitzero" required:"false" doc:"End of the ban"` // zero: not banned
	// Grace is until when the secret before the last rotation is valid; zero: it is not.
	Grace time.Time `json:"graceUntil,omitzero" required:"false" doc:"Until when the previous secret is valid"`
	// Reset is when the key was last reset, by Valkey's clock: what it was counted up to then
	// does not count. Zero: never.
	Reset time.Time `json:"reset,omitzero" required:"false" doc:"Last reset: what was counted before does not count"`
	// Billing says when the billing months of the caller begin.
	Billing limits.Billing `json:"billing,omitzero" required:"false" doc:"When the billing months of the key begin"`
	Version int64          `json:"version"` // number of its last change in the log
	Created time.Time      `json:"created"`
	Updated time.Time      `json:"updated"`

	// PlanNumber is the number of Plan, which identifies the plan after it is renamed.
	PlanNumber int `json:"planNumber,omitempty"`
}

// Status is the state of a key.
type Status string

// The states of a key.
const (
	Active  Status = "active"
	Revoked Status = "revoked"
	// Unreadable is the status of a key whose record this version of Tidegate cannot
	// decode. Only its ID and Name are known, and it can only be deleted.
	Unreadable Status = "unreadable"
)

// Kind is how a subject is identified.
type Kind string

// The kinds of subjects.
const (
	APIKey  Kind = "key"     // by the secret of an API key
	Token   Kind = "token"   // by a JWT; there is a record only with an override or a ban
	Address Kind = "address" // by a client address; there is a record as for Token
)

// Override is a list of limits for one key, or for each key of a group. Each takes the
// place of the limits of each caller, the plan's or the policy's, with the same on, except,
// unit and parameter. Without limits it lifts all of the plan's. What it replaces goes on
// counting.
type Override struct {
	Limits []limits.Limit `json:"limits,omitempty"` // up to limits.MaxPlanLimits
	// end of the override; zero: none
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
	Expires time.Time       `json:"expires,omitzero" required:"false"`
	Opens   []route.Pattern `json:"opens,omitempty" doc:"Routes that the key may call, among those of its plan; if omitted, all of them"` // as in Key
	Billing limits.Billing  `json:"billing,omitzero" required:"false" doc:"When the billing months of the key begin"`                     // as in Key
	// Status is Active or Revoked; empty means Active.
	Status Status `json:"status,omitempty"`
	// Value is the key's text if another system made it; empty to generate one.
	Value string `json:"-"`
}

// String returns the name, without the value.
func (n NewKey) String() string { return "new key " + n.Name }

// GoString hides the value as String does.
func (n NewKey) GoString() string { return n.String() }

// Effective is what holds for a key at an instant.
type Effective struct {
	// Limits are those of each caller and of each group that hold for the key: the
	// override's, the plan's and the policy's.
	Limits []limits.Limit `json:"limits"`
	Source string         `json:"source"` // "override" of the key, "group" for its group's, or "plan"
	Plan   Plan           `json:"plan"`   // of the key, also if an override applies

	Override *Override     `json:"-"` // that applies; nil for none
	Caller   limits.Caller `json:"-"` // what limits ask of the key
}

// Effective returns what holds for k at t. It reports false if the plan of EffectivePlan
// does not exist.
func (s *Set) Effective(k Key, t time.Time) (Effective, bool) {
	p, ok := s.EffectivePlan(k)
	e := Effective{Plan: p}
	e.Caller, e.Override, e.Source = s.CallerOf(k, t)
	for _, a := range s.Language().Standing(e.Caller) {
		if !a.CountsOnly {
			e.Limits = append(e.Limits, a.Limit)
		}
	}
	return e, ok
}

// CallerOf returns what limits ask of k at t, the override in force, which is nil for none,
// and the Source of an Effective.
func (s *Set) CallerOf(k Key, t time.Time) (c limits.Caller, o *Override, source string) {
	c.Group, c.Billing, c.GroupBilling = k.Group, k.Billing, s.GroupBilling[k.Group]
	if p, found := s.EffectivePlan(k); found {
		plan := p.language()
		c.Plan = &plan
	}
	o, source = s.OverrideOf(k, t)
	if o == nil {
		return c, nil, "plan"
	}
	c.Override, c.InForce, c.Source = o.Limits, true, limits.FromOverride
	if source == "group" {
		c.Source = limits.FromGroupOverride
	}
	return c, o, source
}

// OverrideOf returns the override in force for k at t, the key's before its group's, and
// its Source. It returns nil if none is. Its limits name routes by their present names.
func (s *Set) OverrideOf(k Key, t time.Time) (o *Override, source string) {
	if k.Override.ActiveAt(t) {
		return s.Renamed(k.Override), "override"
	}
	if o, found := s.GroupOverrides[k.Group]; found && o.ActiveAt(t) {
		return &o, "group"
	}
	return nil, ""
}

// EffectivePlan returns the plan of k, also if an override applies. A Token or Address
// without a plan has the default plan of its kind, TokenPlan or AddressPlan.
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

// AccessProblem returns the reason why a key may not make a call: its own list or its
// plan's does not open the route. It is empty if both do.
func AccessProblem(k Key, plan Plan, call route.Call) string {
	switch {
	case !opens(k.Opens, call):
		return "the key does not open this route"
	case !opens(plan.Opens, call):
		return "the plan does not open this route"
	}
	return ""
}

// opens reports whether a list is empty or has a pattern that matches the call. A list that
// is not valid opens nothing.
func opens(patterns []route.Pattern, call route.Call) bool {
	if len(patterns) == 0 {
		return true
	}
	list, err := route.NewList(patterns)
	return err == nil && list.Matches(call)
}

// Bounds of texts and lists.
const (
	MaxNameLen   = 100 // characters of a name
	MaxReasonLen = 200 // characters of a reason
	MaxTags      = 10
	MaxTagLen    = 50 // characters of a tag
	MaxGroupLen  = 64 // bytes of a group's name
	MaxOpens     = 20 // patterns that a plan or a key opens
)

// Validate validates an edit of old, the zero Key for a new key, against the Set. It sets
// PlanNumber. It fails with an *InvalidError. The plan and the override that old has pass:
// a save of the Set since may have made them invalid, and the key must still be revoked.
func (k *Key) Validate(set *Set, old Key) error {
	var fields fieldErrors
	fields.add("name", TextProblem(k.Name, MaxNameLen))
	if k.Kind == APIKey && !apikey.ValidEnv(k.Env) {
		fields.add("env", "must be 1 to 16 lower-case letters or digits")
	}
	if len(k.Tags) > MaxTags {
		fields.add("tags", fmt.Sprintf("%d given: must be at most %d", len(k.Tags), MaxTags))
	}
	fields = append(fields, TagErrors(k.Tags)...)
	if p, found := set.Plan(k.Plan); found || k.Plan != old.Plan || k.PlanNumber != old.PlanNumber {
		k.PlanNumber = p.Number
	}
	if k.PlanNumber == 0 && (k.Kind == APIKey || k.Plan != "") {
		fields.add("plan", fmt.Sprintf("no plan is named %.100q: create it first", k.Plan))
	}
	if k.Kind != APIKey && len(k.Opens) > 0 {
		fields.add("opens", "is only for API keys: set it on the plan")
	}
	fields = append(fields, opensErrors("opens", k.Opens)...)
	switch {
	case k.Group != "" && k.Kind != APIKey:
		fields.add("group", "is only for API keys: leave it out")
	case k.Group != "":
		fields.add("group", GroupProblem(k.Group))
	}
	fields = append(fields, billingErrors("billing.", k.Billing)...)
	fields.add("expires", TimeProblem(k.Expires))
	fields.add("bannedUntil", TimeProblem(k.Banned))
	if k.Override != nil && !reflect.DeepEqual(k.Override, old.Override) {
		fields = append(fields, k.Override.errors("override.", set, k)...)
	}
	return Invalid(fields)
}

// Validate validates an override against the Set. It fails with an *InvalidError, whose
// fields begin with "override.".
func (o *Override) Validate(set *Set) error { return Invalid(o.errors("override.", set, nil)) }

// errors returns the errors of an override of a key, or of any key if k is nil; at is the
// place of its fields, with a final dot.
func (o *Override) errors(at string, set *Set, k *Key) []FieldError {
	var fields fieldErrors
	var plan *limits.Plan
	if k != nil {
		if p, found := set.EffectivePlan(*k); found {
			own := p.language()
			plan = &own
		}
	}
	fields.addLimits(set.Language().OverrideErrors(at+"limits", o.Limits, plan))
	fields.add(at+"reason", TextProblem(o.Reason, MaxReasonLen))
	fields.add(at+"until", TimeProblem(o.Until))
	return fields
}

// GroupProblem returns the problem of a group's name; empty if it is valid. A valid name
// needs no escaping in paths, JSON and Valkey.
func GroupProblem(name string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
	}
	other := func(r rune) bool { return !plain(r) && !strings.ContainsRune("._-:@", r) }
	if name == "" || len(name) > MaxGroupLen || !plain(rune(name[0])) ||
		strings.ContainsFunc(name, other) {
		return fmt.Sprintf("must be 1 to %d letters, digits and . _ - : @, and begin with a letter or digit",
			MaxGroupLen)
	}
	return ""
}
