// Package policy is the model of what operators configure: a Set of plans, route rules
// and limits of all callers, and the Key of one caller with its plan and override. It
// validates both, and finds the limits that apply to a key. It is pure: it knows no
// Valkey and no clock. Package policyset stores it, package registry edits it, package
// enforce checks calls by it.
package policy

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"tidegate/internal/limiter"
	"tidegate/internal/route"
)

// Set is the policy set: all configuration except keys. One version covers all of it.
type Set struct {
	Version int64   `json:"version"` // 1 after the first save, one more with each save
	Plans   []Plan  `json:"plans"`
	Routes  []Route `json:"routes,omitempty"`

	// PerIP limits each client address, masked to the prefix length that the check
	// function is configured with. Global limits all callers together. Both count every
	// call except those of exempt addresses.
	PerIP  Scope `json:"perIP,omitzero"`
	Global Scope `json:"global,omitzero"`

	// Deny refuses callers from these networks. Allow, if it is not empty, refuses
	// callers from all other networks. Callers from Exempt are not limited. The address
	// is the one that API Gateway saw; a TOKEN event has none and is in no list.
	Deny   []netip.Prefix `json:"deny,omitempty"`
	Allow  []netip.Prefix `json:"allow,omitempty"`
	Exempt []netip.Prefix `json:"exempt,omitempty"`

	// TokenPlan is the plan of a JWT that names none. AddressPlan is the plan of callers
	// identified by address. If empty, these callers are refused.
	TokenPlan   string `json:"tokenPlan,omitempty"`
	AddressPlan string `json:"addressPlan,omitempty"`

	// GroupOverrides has the overrides of groups of keys by name. One replaces the limits
	// of the plans for each key of the group, but not an override of the key itself.
	GroupOverrides map[string]Override `json:"groupOverrides,omitempty"`

	// NextNumber is the number that the next new plan gets.
	NextNumber int `json:"nextNumber"`
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

// PlanByNumber returns the plan with this number.
func (s *Set) PlanByNumber(number int) (Plan, bool) {
	for _, p := range s.Plans {
		if p.Number == number {
			return p, true
		}
	}
	return Plan{}, false
}

// PlanName returns the name of the plan with this number; empty if there is none.
func (s *Set) PlanName(number int) string {
	p, _ := s.PlanByNumber(number)
	return p.Name
}

// NumberPlans returns next with numbers for its new plans. It fails with an *InvalidError
// if a plan has a number that no plan of current has, or that another plan has, or if no
// number is left.
func NumberPlans(next Set, current *Set) (*Set, error) {
	next.Plans = slices.Clone(next.Plans)
	next.NextNumber = max(current.NextNumber, 1)
	var fields []FieldError
	seen := map[int]bool{}
	for i := range next.Plans {
		p := &next.Plans[i]
		if p.Number == 0 {
			p.Number = next.NextNumber
			next.NextNumber++
		} else if _, known := current.PlanByNumber(p.Number); !known || seen[p.Number] {
			fields = append(fields, FieldError{fmt.Sprintf("plans[%d].number", i),
				fmt.Sprintf("is %d: leave it out for a new plan", p.Number)})
		}
		seen[p.Number] = true
	}
	if next.NextNumber > MaxNumber+1 {
		fields = append(fields, FieldError{"plans",
			fmt.Sprintf("%d plans were created already: edit one instead", MaxNumber)})
	}
	if len(fields) > 0 {
		return nil, Invalid(fields)
	}
	return &next, nil
}

// Plan is a named list of limits that keys have.
type Plan struct {
	Number   int             `json:"number"` // 1 to MaxNumber, never reused; 0 in a new plan
	Name     string          `json:"name"`   // 1 to 100 characters, unique
	Limits   []limiter.Limit `json:"limits"` // 1 to limiter.MaxLimits, taken all or nothing
	Mode     Mode            `json:"mode,omitempty"`
	Degraded Degraded        `json:"degraded,omitempty"`
	// percent of the limits that one environment may admit with Local, 1 to 100
	Share int `json:"share,omitempty"`
	// PerGroup has limits that all keys of this plan in one group share, in addition to
	// the limits of each key. They have the plan's mode. No override replaces them.
	PerGroup []limiter.Limit `json:"perGroup,omitempty"`
	// Allow has the routes that the plan's keys may call, up to MaxAllow; empty for all.
	Allow []route.Pattern `json:"allow,omitempty"`
}

// Route is a rule for the calls that its pattern matches. If several rules match a call,
// the most specific applies.
type Route struct {
	Name    string        `json:"name"` // 1 to 100 characters, unique
	Pattern route.Pattern `json:"pattern"`
	// the cost of a call, 0 to limiter.MaxRequests; a call of cost 0 is authenticated and
	// not limited
	Cost   int64 `json:"cost"`
	Settle bool  `json:"settle,omitempty"`
	// SettleMax is the greatest cost that settling a call may charge to shared limits:
	// Cost to limiter.MaxRequests. 0 stands for DefaultSettleMax times what the call
	// took.
	SettleMax int64 `json:"settleMax,omitempty"`
	Mode      Mode  `json:"mode,omitempty"` // of the limits below

	// of each caller, on the calls of this rule alone, in addition to the plan's
	PerKey []limiter.Limit `json:"perKey,omitempty"`
	// of each client address, on the calls of this rule alone
	PerIP  []limiter.Limit `json:"perIP,omitempty"`
	Shared []limiter.Limit `json:"shared,omitempty"` // of all callers of this rule together
}

// UnmarshalJSON sets a missing cost to 1.
func (r *Route) UnmarshalJSON(data []byte) error {
	type plain Route
	p := plain{Cost: 1}
	err := json.Unmarshal(data, &p)
	*r = Route(p)
	return err
}

// DefaultSettleMax is how many times a call's cost its settlement may charge to shared
// limits, on a route without SettleMax.
const DefaultSettleMax = 10

// SettleBound returns the greatest cost that settling a call may charge to shared limits.
// cost is what the call took. The result is at least cost, because that is charged
// already.
func (r Route) SettleBound(cost int64) int64 {
	most := r.SettleMax
	if most == 0 {
		most = SettleMaxOf(cost)
	}
	return max(most, cost)
}

// SettleMaxOf returns the bound of a settlement on a route without SettleMax.
func SettleMaxOf(cost int64) int64 {
	return min(DefaultSettleMax*cost, limiter.MaxRequests)
}

// Scope is a list of limits on something other than a caller.
type Scope struct {
	Limits []limiter.Limit `json:"limits,omitempty"`
	Mode   Mode            `json:"mode,omitempty"`
}

// Mode determines whether limits are counted and enforced.
type Mode string

// The modes of lists of limits. The zero value is Enforce.
const (
	Enforce Mode = "enforce" // a denied call is denied
	Shadow  Mode = "shadow"  // calls are counted and denials recorded, but every call passes
	Off     Mode = "off"     // of an override without limits alone: every call passes
)

// OrEnforce returns the mode, or Enforce if it is empty.
func OrEnforce(m Mode) Mode {
	if m == "" {
		return Enforce
	}
	return m
}

// DenyNothing reports whether limits with a mode deny no call: there are none, or all are
// in shadow mode.
func DenyNothing(mode Mode, limits []limiter.Limit) bool {
	return mode == Shadow ||
		!slices.ContainsFunc(limits, func(l limiter.Limit) bool { return !l.Shadow })
}

// Degraded determines how calls are decided while Valkey is unavailable. Whatever its
// value, only callers that were verified before may pass.
type Degraded string

// The values of Degraded. The zero value is Closed.
const (
	Closed Degraded = "closed" // calls are denied
	Open   Degraded = "open"   // calls pass, uncounted
	Local  Degraded = "local"  // each environment counts alone, against Share of the limits
)

// The scopes of limits.
const (
	ScopeKey      = "key"
	ScopeRoute    = "route"
	ScopeIP       = "ip"
	ScopeRouteIP  = "route-ip"
	ScopeGlobal   = "global"
	ScopeRouteAll = "route-all"
	ScopeGroup    = "group"
)

// GlobalID is the subject of the limits on all callers.
const GlobalID = "global"

// RouteID returns the id under which the usage of a route is recorded.
func RouteID(name string) string { return "route-" + RouteTag(name) }

// RouteTag returns the 12 characters that stand for a route's or a group's name in
// Valkey.
func RouteTag(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// GroupID returns the subject of a group of keys, which has the counts of its limits.
func GroupID(name string) string { return "group-" + RouteTag(name) }

// GroupState returns the last part of the name of the counts of a plan's limits per
// group. Each plan has its own counts.
func GroupState(plan int) string { return "s" + strconv.Itoa(plan) }
