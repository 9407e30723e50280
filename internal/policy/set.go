// Package policy is the model of what operators configure: a Set of plans, route rules
// and limits of all callers, and the Key of one caller with its plan and override. It
// validates both, and says which limits hold for a key. It is pure: it knows no Valkey
// and no clock. Package policyset stores it, package registry edits it, package enforce
// checks calls by it.
package policy

import (
	"encoding/json"
	"net/netip"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/route"
)

// Mode says what a denial means.
type Mode string

// OrEnforce returns the mode, Enforce when it is empty.
func OrEnforce(m Mode) Mode {
	if m == "" {
		return Enforce
	}
	return m
}

// The modes. The zero value is Enforce.
const (
	Enforce Mode = "enforce" // a denied call is denied
	Shadow  Mode = "shadow"  // calls are counted and denials recorded, but every call passes
	Off     Mode = "off"     // nothing is counted and every call passes
)

// Degraded says what becomes of a call while Valkey is away. Whatever it says, only
// callers that were verified before may pass.
type Degraded string

// What a plan can do while Valkey is away. The zero value is Closed.
const (
	Closed Degraded = "closed" // calls are denied
	Open   Degraded = "open"   // calls pass, uncounted
	Local  Degraded = "local"  // every environment counts alone against Share of the limits
)

// Set is all configuration except keys. One version covers all of it.
type Set struct {
	Version int64   `json:"version"` // 1 at first, one more with each save
	Plans   []Plan  `json:"plans"`
	Routes  []Route `json:"routes,omitempty"`

	// PerIP limits each client address, masked to the prefix length that the check
	// function is configured with. Global limits all callers together. Both count every
	// call except those of exempt addresses.
	PerIP  Scope `json:"perIP,omitzero"`
	Global Scope `json:"global,omitzero"`

	// Deny refuses callers from these addresses. Allow, when it is not empty, refuses
	// callers from any other. Callers from Exempt are not limited. The address is the one
	// that API Gateway saw; a TOKEN event has none, and counts as outside of every list.
	Deny   []netip.Prefix `json:"deny,omitempty"`
	Allow  []netip.Prefix `json:"allow,omitempty"`
	Exempt []netip.Prefix `json:"exempt,omitempty"`

	// TokenPlan is the plan of a JWT that names none. AddressPlan is the plan of callers
	// identified by address. Empty refuses them.
	TokenPlan   string `json:"tokenPlan,omitempty"`
	AddressPlan string `json:"addressPlan,omitempty"`

	Bans *Bans `json:"bans,omitempty"`

	// ShrinkingLeases are leases that a save shortened or ended, by the limits' subject.
	// Later saves keep them.
	ShrinkingLeases map[string]ShrinkingLease `json:"lapses,omitempty"`

	// NextNumber is the number that the next new plan gets.
	NextNumber int `json:"nextNumber"`
}

// Plan is a named list of limits that keys have.
type Plan struct {
	Number   int             `json:"number"` // 1 and up, never used again; 0 in a new plan
	Name     string          `json:"name"`   // 1 to 100 characters, unique
	Limits   []limiter.Limit `json:"limits"` // 1 to limiter.MaxLimits, taken all or nothing
	Mode     Mode            `json:"mode,omitempty"`
	Degraded Degraded        `json:"degraded,omitempty"`
	// with Local: percent of the limits that one environment may admit, 1 to 100
	Share int `json:"share,omitempty"`
	// Candidate is a list of candidate limits, counted but never enforced. None is in
	// shadow mode by itself.
	Candidate []limiter.Limit `json:"candidate,omitempty"`
	// PerGroup is limits on all keys of this plan that are in one group, together, in
	// addition to those of each key. They have the plan's mode, and no key's override
	// replaces them.
	PerGroup []limiter.Limit `json:"perGroup,omitempty"`
	// Allow is the routes that the plan's keys may call, up to MaxAllow; none for all.
	Allow []route.Pattern `json:"allow,omitempty"`
}

// Route is a rule for the calls that its pattern matches. Of several that match one call
// the most specific wins.
type Route struct {
	Name    string        `json:"name"` // 1 to 100 characters, unique
	Pattern route.Pattern `json:"pattern"`
	// the cost of a call, 0 to limiter.MaxRequests; a call of cost 0 is authenticated and
	// not limited
	Cost   int64 `json:"cost"`
	Settle bool  `json:"settle,omitempty"`
	// SettleMax is the most that settling a call may charge to limits that several
	// callers share: Cost to limiter.MaxRequests. 0 is DefaultSettleMax times what the
	// call took.
	SettleMax int64 `json:"settleMax,omitempty"`
	Mode      Mode  `json:"mode,omitempty"` // of the limits below

	// of each caller, on the calls of this rule alone, in addition to the plan's
	PerKey []limiter.Limit `json:"perKey,omitempty"`
	// of each client address, on the calls of this rule alone
	PerIP  []limiter.Limit `json:"perIP,omitempty"`
	Shared []limiter.Limit `json:"shared,omitempty"` // of all callers of this rule together

	SharedLease Duration `json:"sharedLease,omitzero"` // of Shared, as Scope.Lease
}

// UnmarshalJSON sets a missing cost to 1.
func (r *Route) UnmarshalJSON(data []byte) error {
	type plain Route
	p := plain{Cost: 1}
	err := json.Unmarshal(data, &p)
	*r = Route(p)
	return err
}

// Scope is a list of limits on something other than a caller.
type Scope struct {
	Limits []limiter.Limit `json:"limits,omitempty"`
	Mode   Mode            `json:"mode,omitempty"`

	// Lease is how long an environment may admit calls from a share that it took in
	// advance, so that not every check takes from the one shared state. MinLease to a
	// quarter of the shortest window, in whole milliseconds; 0 takes for every call. Only
	// Global may have one.
	Lease Duration `json:"lease,omitzero"`
}

// Bans is the policy of automatic bans: Denials denied calls within Window ban a
// caller for Base, each further ban lasts twice as long, up to Cap. A caller who was not
// banned for Cap starts over.
type Bans struct {
	Denials int64    `json:"denials"` // 2 to 100,000
	Window  Duration `json:"window"`
	Base    Duration `json:"base"`
	Cap     Duration `json:"cap"`
}

// Duration is a time.Duration that reads and writes itself as limiter.ParseWindow does:
// "10s", "30d".
type Duration time.Duration

// MarshalText writes the duration in short.
func (d Duration) MarshalText() ([]byte, error) {
	return []byte(limiter.ShortWindow(time.Duration(d))), nil
}

// UnmarshalText is the inverse of MarshalText.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := limiter.ParseWindow(string(text))
	*d = Duration(parsed)
	return err
}

// Plan returns the plan with this name.
func (s *Set) Plan(name string) (Plan, bool) {
	for _, p := range s.Plans {
		if p.Name == name {
			return p, true
		}
	}
	return Plan{}, false
}

// Numbered returns the plan with this number.
func (s *Set) Numbered(number int) (Plan, bool) {
	for _, p := range s.Plans {
		if p.Number == number {
			return p, true
		}
	}
	return Plan{}, false
}

// HasCandidate reports whether any plan has candidate limits, counted but never enforced.
func (s *Set) HasCandidate() bool {
	for _, p := range s.Plans {
		if len(p.Candidate) > 0 {
			return true
		}
	}
	return false
}

// PlanName returns the name of the plan with this number; empty when there is none.
func (s *Set) PlanName(number int) string {
	p, _ := s.Numbered(number)
	return p.Name
}

// The scopes of limits: what they are on.
const (
	ScopeKey      = "key"
	ScopeRoute    = "route"
	ScopeIP       = "ip"
	ScopeRouteIP  = "route-ip"
	ScopeGlobal   = "global"
	ScopeRouteAll = "route-all"
	ScopeGroup    = "group"
)
