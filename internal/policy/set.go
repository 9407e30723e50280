// Package policy is the model of what operators configure: a Set of plans, routes and
// limits of all callers, and the Key of one caller with its plan and override. It
// validates both, and finds what holds for a key. It is pure: it knows no
// Valkey and no clock. Package policyset stores it, package registry edits it, package
// enforce checks calls by it.
package policy

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"tidegate/internal/limits"
	"tidegate/internal/route"
)

// Set is the policy set: all configuration except keys. One version covers all of it.
type Set struct {
	Version int64  `json:"version,omitempty"` // number of its last change in the log
	Plans   []Plan `json:"plans"`
	// Limits are those of all callers, whatever their plan. No limit counts calls from
	// exempt addresses.
	Limits []limits.Limit `json:"limits,omitempty"`
	Routes []limits.Route `json:"routes,omitempty"`

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

	// GroupOverrides has the overrides of groups of keys by name. One holds for each key of
	// the group that has no override itself.
	GroupOverrides map[string]Override `json:"groupOverrides,omitempty"`

	// GroupBilling says when the billing months of groups begin, by name. Those of others
	// begin on the first day of a month.
	GroupBilling map[string]limits.Billing `json:"groupBilling,omitempty"`

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

// Language returns the plans, limits and routes of the set as package limits reads them.
// A plan's ID is its number.
func (s *Set) Language() *limits.Policy {
	p := &limits.Policy{Plans: make([]limits.Plan, len(s.Plans)), Limits: s.Limits, Routes: s.Routes}
	for i, plan := range s.Plans {
		p.Plans[i] = plan.language()
	}
	return p
}

func (p *Plan) language() limits.Plan {
	return limits.Plan{ID: strconv.Itoa(p.Number), Name: p.Name, Limits: p.Limits}
}

// Identify returns next with numbers for its new plans, and with IDs and former names for
// its routes. A route without an ID is the one of current with its name, if there is one.
// The overrides of groups name routes by their new names. Identify fails with
// an *InvalidError if a plan has a number, or a route an ID, that none of current has, or
// that another has too.
func Identify(next Set, current *Set) (*Set, error) {
	next.Plans, next.Routes = slices.Clone(next.Plans), slices.Clone(next.Routes)
	next.NextNumber = max(current.NextNumber, 1)
	var fields fieldErrors
	seen := map[int]bool{}
	for i := range next.Plans {
		p := &next.Plans[i]
		if p.Number == 0 {
			p.Number = next.NextNumber
			next.NextNumber++
		} else if _, known := current.PlanByNumber(p.Number); !known || seen[p.Number] {
			fields.add(fmt.Sprintf("plans[%d].number", i),
				fmt.Sprintf("is %d: leave it out for a new plan", p.Number))
		}
		seen[p.Number] = true
	}
	fields = append(fields, next.identifyRoutes(current)...)
	if len(fields) > 0 {
		return nil, Invalid(fields)
	}
	next.keepFormerNames(current)
	return &next, nil
}

func (s *Set) identifyRoutes(current *Set) (fields fieldErrors) {
	taken := map[string]bool{}
	for _, r := range current.Routes {
		taken[r.ID] = true
	}
	seen := map[string]bool{}
	for i := range s.Routes {
		r := &s.Routes[i]
		if r.ID != "" && (!taken[r.ID] || seen[r.ID]) {
			fields.add(fmt.Sprintf("routes[%d].id", i),
				fmt.Sprintf("is %.100q: leave it out for a new route", r.ID))
		}
		seen[r.ID] = true
	}
	for i := range s.Routes {
		r := &s.Routes[i]
		if known, found := current.Route(r.Name); r.ID == "" && found && !seen[known.ID] {
			r.ID = known.ID
		}
		for n := 1; r.ID == ""; n++ { // a new route; its name may be the ID of one that was renamed
			id := r.Name
			if n > 1 {
				id += "~" + strconv.Itoa(n)
			}
			if !taken[id] {
				r.ID, taken[id] = id, true
			}
		}
	}
	return fields
}

// keepFormerNames gives the routes their former names, and the overrides of groups the new
// ones.
func (s *Set) keepFormerNames(current *Set) {
	taken := map[string]bool{} // a name is of the route that had it last
	for _, r := range s.Routes {
		taken[r.Name] = true
	}
	add := func(r *limits.Route, names ...string) {
		for _, name := range names {
			if !taken[name] {
				taken[name] = true
				r.Former = append(r.Former, name)
			}
		}
	}
	known := make([]limits.Route, len(s.Routes))
	for i := range s.Routes {
		at := slices.IndexFunc(current.Routes, func(r limits.Route) bool { return r.ID == s.Routes[i].ID })
		if s.Routes[i].Former = nil; at >= 0 {
			known[i] = current.Routes[at]
			add(&s.Routes[i], known[i].Name)
		}
	}
	for i := range s.Routes {
		r := &s.Routes[i]
		newest := r.Former
		r.Former = nil
		add(r, known[i].Former...)
		r.Former = append(r.Former, newest...)
		r.Former = r.Former[max(0, len(r.Former)-limits.MaxFormer):]
	}
	if len(s.GroupOverrides) == 0 {
		return
	}
	renamed := make(map[string]Override, len(s.GroupOverrides))
	for name, o := range s.GroupOverrides {
		renamed[name] = *s.Renamed(&o)
	}
	s.GroupOverrides = renamed
}

// Renamed returns an override whose limits name routes by their present names. It may be
// nil.
func (s *Set) Renamed(o *Override) *Override {
	if o == nil {
		return nil
	}
	names := map[string]string{}
	for _, r := range s.Routes {
		for _, former := range r.Former {
			names[former] = r.Name
		}
	}
	if len(names) == 0 {
		return o
	}
	next := *o
	next.Limits = slices.Clone(o.Limits)
	for i := range next.Limits {
		l := &next.Limits[i]
		if name := names[l.On]; name != "" {
			l.On = name
		}
		l.Except = slices.Clone(l.Except)
		for j, text := range l.Except {
			if name := names[text]; name != "" {
				l.Except[j] = name
			}
		}
	}
	return &next
}

// Route returns the route with this name.
func (s *Set) Route(name string) (limits.Route, bool) {
	for _, r := range s.Routes {
		if r.Name == name {
			return r, true
		}
	}
	return limits.Route{}, false
}

// Plan is a named list of limits that keys have.
type Plan struct {
	Number   int            `json:"number"` // from 1, never reused; 0 in a new plan
	Name     string         `json:"name"`   // 1 to 100 characters, unique
	Limits   []limits.Limit `json:"limits"` // up to limits.MaxPlanLimits, taken all or nothing
	Degraded Degraded       `json:"degraded,omitempty"`
	// percent of the limits that one environment may admit with Local, 1 to 100
	Share int `json:"share,omitempty"`
	// Opens has the routes that the plan's keys may call, up to MaxOpens; empty for all.
	Opens []route.Pattern `json:"opens,omitempty"`
}

// DenyNothing reports whether limits deny no call: each is in shadow or lifts others.
func DenyNothing(list []limits.Limit) bool {
	return !slices.ContainsFunc(list, func(l limits.Limit) bool { return !l.Shadow && !l.Lifted })
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

// GlobalID is the subject under which the usage of all callers is recorded.
const GlobalID = "global"

// GroupID returns the id under which the usage of a group of keys is recorded.
func GroupID(name string) string { return "group-" + Tag(name) }

// Tag returns the 12 characters that stand for a name in Valkey.
func Tag(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}
