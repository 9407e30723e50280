// Package policydoc owns the document form of a policy set: JSON for the API, YAML for
// policy files, where a limit is written in words ("100 per 10 seconds, on search"). It
// converts documents to and from a policy.Set, and describes sets and their differences in
// the words that pages use too. Packages app, api and dashboard import it. It must not read
// or change the store.
package policydoc

import (
	"errors"
	"fmt"
	"net/netip"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// Policy is the document of a policy set: all configuration except the keys. The tags label,
// hint, sample, rows, most and rare are what a form shows of a field: see package command.
type Policy struct {
	Version     int64    `json:"version,omitempty" yaml:"version,omitempty" readOnly:"true" doc:"Version, as in the ETag. A change is checked against If-Match, not against this field"`
	Plans       []Plan   `json:"plans" yaml:"plans,omitempty" maxItems:"500"`
	Limits      []Limit  `json:"limits,omitempty" yaml:"limits,omitempty" maxItems:"200" doc:"Limits of all callers, whatever their plan. Each says for whom it counts"`
	Routes      []Route  `json:"routes,omitempty" yaml:"routes,omitempty" maxItems:"500"`
	Deny        []string `json:"deny,omitempty" yaml:"deny,omitempty" maxItems:"500" doc:"Networks whose callers are refused" example:"[\"203.0.113.0/24\"]"`
	Allow       []string `json:"allow,omitempty" yaml:"allow,omitempty" maxItems:"500" doc:"Networks whose callers are admitted; when it is set, callers from other networks are refused"`
	Exempt      []string `json:"exempt,omitempty" yaml:"exempt,omitempty" maxItems:"500" doc:"Networks whose callers are not limited"`
	TokenPlan   string   `json:"tokenPlan,omitempty" yaml:"tokenPlan,omitempty" maxLength:"100" doc:"Default plan for JWTs"`
	AddressPlan string   `json:"addressPlan,omitempty" yaml:"addressPlan,omitempty" maxLength:"100" doc:"Default plan for addresses"`
}

// Plan is a named list of limits for keys. JSON identifies a plan by Number, YAML by Name.
// Was is the former name of a renamed plan.
type Plan struct {
	Number   int             `json:"number,omitempty" yaml:"-" minimum:"0" doc:"Permanent number of the plan; if omitted, the plan is matched by its name"`
	Name     string          `json:"name" yaml:"name" minLength:"1" maxLength:"100" label:"Name" sample:"free"`
	Was      string          `json:"-" yaml:"was,omitempty"`
	Limits   []Limit         `json:"limits" yaml:"limits,omitempty" required:"false" maxItems:"32" label:"Limits, one a line" hint:"A call passes only if all of these have room. Each caller, unless a limit says each group or together." doc:"Limits of the plan's callers; without a mark, each caller"`
	Degraded policy.Degraded `json:"degraded,omitempty" yaml:"degraded,omitempty" enum:"closed,open,local" label:"If Valkey is unavailable" doc:"What happens to calls while Valkey is unavailable"`
	Share    int             `json:"share,omitempty" yaml:"share,omitempty" minimum:"0" maximum:"100" label:"Percent per environment (local only)" sample:"10" doc:"With local: percentage of each limit that one Lambda environment admits"`
	Opens    []Pattern       `json:"opens,omitempty" yaml:"opens,omitempty" maxItems:"20" most:"60000" rows:"3" rare:"Open routes" label:"Open routes" sample:"GET /orders/*" hint:"One pattern a line. If set, calls to others get 401." doc:"Routes that the plan's keys may call; if omitted, all routes"`
}

// Route names calls by patterns, and says what they cost. JSON identifies a route by ID,
// YAML by Name. Was is the former name of a renamed route.
type Route struct {
	ID     string   `json:"id,omitempty" yaml:"-" maxLength:"120" doc:"Permanent id of the route, by which limits on it are counted; if omitted, the route is matched by its name"`
	Name   string   `json:"name" yaml:"name" minLength:"1" maxLength:"100" label:"Name" sample:"search"`
	Was    string   `json:"-" yaml:"was,omitempty"`
	Match  Patterns `json:"match" yaml:"match" minItems:"1" maxItems:"100" most:"60000" rows:"3" label:"Calls to" sample:"GET /orders/*" hint:"One pattern a line: POST /chat, GET /orders/{id}, /files/* for every method. GET covers HEAD." doc:"Patterns of the route's calls"`
	Cost   *Cost    `json:"cost,omitempty" yaml:"cost,omitempty" most:"400" label:"Cost of a call" sample:"1" hint:"A number, or one for each unit: 500 input, 800 output. 0 is free in every unit."`
	Settle bool     `json:"settle,omitempty" yaml:"settle,omitempty" label:"Backend settles the actual cost" doc:"The backend settles the cost after the call"`
	Scopes []string `json:"scopes,omitempty" yaml:"scopes,omitempty" maxItems:"10" most:"4000" rows:"3" label:"Scopes of tokens" sample:"orders:read" hint:"One a line. A token needs one of them. Without scopes, every token may call." doc:"Scopes of which a token must have one; if omitted, any token may call"`
}

// Pattern selects calls. An empty field matches any call. In YAML it is a
// route such as "GET /orders/{id}", or a mapping of its fields.
type Pattern struct { //nolint:recvcheck // only what reads a document changes it
	API    string `json:"api,omitempty" yaml:"api,omitempty" maxLength:"64"`
	Stage  string `json:"stage,omitempty" yaml:"stage,omitempty" maxLength:"128"`
	Method string `json:"method,omitempty" yaml:"method,omitempty" maxLength:"16" doc:"GET matches HEAD too; ANY is every method"`
	Path   string `json:"path,omitempty" yaml:"path,omitempty" maxLength:"512" example:"/orders/{id}"`
}

// Patterns is a list of patterns. In YAML, a single one may stand for a list.
type Patterns []Pattern

// PolicyOf returns the document of a set.
func PolicyOf(s *policy.Set) Policy {
	p := Policy{
		Version: s.Version, Plans: make([]Plan, len(s.Plans)),
		Deny: networks(s.Deny), Allow: networks(s.Allow), Exempt: networks(s.Exempt),
		TokenPlan: s.TokenPlan, AddressPlan: s.AddressPlan,
	}
	for i, plan := range s.Plans {
		p.Plans[i] = PlanOf(plan)
	}
	if len(s.Limits) > 0 {
		p.Limits = LimitsOf(s.Limits)
	}
	for _, r := range s.Routes {
		p.Routes = append(p.Routes, RouteOf(r))
	}
	return p
}

// PlanOf returns the document form of a plan.
func PlanOf(p policy.Plan) Plan {
	return Plan{Number: p.Number, Name: p.Name, Limits: LimitsOf(p.Limits), Degraded: p.Degraded,
		Share: p.Share, Opens: PatternsOf(p.Opens)}
}

// RouteOf returns the document form of a route.
func RouteOf(r limits.Route) Route {
	return Route{ID: r.ID, Name: r.Name, Match: PatternsOf(r.Match), Cost: costOf(r.Cost), Settle: r.Settle,
		Scopes: r.Scopes}
}

// LimitsOf returns the document form of limits. It is empty, not nil, without limits.
func LimitsOf(list []limits.Limit) []Limit {
	all := make([]Limit, len(list))
	for i, l := range list {
		all[i] = Limit{Limit: l}
	}
	return all
}

// PatternsOf returns the document form of route patterns.
func PatternsOf(list []route.Pattern) []Pattern {
	var all []Pattern
	for _, p := range list {
		all = append(all, Pattern(p))
	}
	return all
}

func networks(list []netip.Prefix) []string {
	var all []string
	for _, p := range list {
		all = append(all, p.String())
	}
	return all
}

// Set returns the set that the document describes, as an edit of current, and the fields
// that cannot be parsed. It keeps the overrides of groups, which no document has. A plan
// without a number gets the number of the plan in current with its name, or else its
// former name; so does a route without an ID. Set checks no bounds; policy.Set.Validate
// does.
func (p *Policy) Set(current *policy.Set) (policy.Set, []policy.FieldError) {
	var t parser
	s := policy.Set{
		Version: p.Version, Plans: make([]policy.Plan, len(p.Plans)), Limits: t.limits("limits", p.Limits),
		Deny: t.networks("deny", p.Deny), Allow: t.networks("allow", p.Allow),
		Exempt:    t.networks("exempt", p.Exempt),
		TokenPlan: p.TokenPlan, AddressPlan: p.AddressPlan,
		NextNumber: current.NextNumber, GroupOverrides: current.GroupOverrides,
		GroupBilling: current.GroupBilling,
	}
	for i, plan := range p.Plans {
		s.Plans[i] = policy.Plan{Number: plan.number(current), Name: plan.Name,
			Limits:   t.limits(fmt.Sprintf("plans[%d].limits", i), plan.Limits),
			Degraded: plan.Degraded, Share: plan.Share, Opens: ToPatterns(plan.Opens)}
	}
	for i, r := range p.Routes {
		s.Routes = append(s.Routes, limits.Route{ID: r.id(current), Name: r.Name, Match: ToPatterns(r.Match),
			Cost: t.cost(fmt.Sprintf("routes[%d].cost", i), r.Cost), Settle: r.Settle,
			Scopes: r.Scopes})
	}
	return s, t.fieldErrors
}

// number returns the number of the plan in current, or 0 for a new plan.
func (p Plan) number(current *policy.Set) int {
	if p.Number != 0 {
		return p.Number
	}
	if known, found := current.Plan(p.Name); found {
		return known.Number
	}
	known, _ := current.Plan(p.Was)
	return known.Number
}

// id returns the ID of the route in current; empty for a new route.
func (r Route) id(current *policy.Set) string {
	if r.ID != "" {
		return r.ID
	}
	if known, found := current.Route(r.Name); found {
		return known.ID
	}
	known, _ := current.Route(r.Was)
	return known.ID
}

// ToLimits parses limits. at is their place in the document, for the returned errors.
func ToLimits(at string, list []Limit) ([]limits.Limit, []policy.FieldError) {
	var t parser
	return t.limits(at, list), t.fieldErrors
}

// ToPatterns is the inverse of PatternsOf. It checks no bounds.
func ToPatterns(list []Pattern) []route.Pattern {
	var all []route.Pattern
	for _, p := range list {
		all = append(all, route.Pattern(p))
	}
	return all
}

// parser parses the parts of a set and collects the fields that cannot be parsed.
type parser struct{ fieldErrors []policy.FieldError }

func (t *parser) add(field string, err error) {
	if err != nil {
		t.fieldErrors = append(t.fieldErrors, policy.FieldError{Field: field, Message: err.Error()})
	}
}

func (t *parser) limits(at string, list []Limit) []limits.Limit {
	var all []limits.Limit
	for i, l := range list {
		for _, e := range l.problems {
			field := fmt.Sprintf("%s[%d]", at, i)
			if e.Field != "" {
				field += "." + e.Field
			}
			t.fieldErrors = append(t.fieldErrors, policy.FieldError{Field: field, Message: e.Message})
		}
		all = append(all, l.Limit)
	}
	return all
}

func (t *parser) cost(at string, c *Cost) limits.Costs {
	if c == nil {
		return limits.Costs{}
	}
	for _, e := range c.problems {
		field := at
		if e.Field != "" {
			field += "." + e.Field
		}
		t.fieldErrors = append(t.fieldErrors, policy.FieldError{Field: field, Message: e.Message})
	}
	return c.Costs
}

// networks parses networks and single addresses. It does not check that they are masked;
// policy.Set.Validate does.
func (t *parser) networks(at string, list []string) []netip.Prefix {
	var all []netip.Prefix
	for i, text := range list {
		read, err := netip.ParsePrefix(text)
		if a, addrErr := netip.ParseAddr(text); addrErr == nil && a.Zone() == "" {
			read, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			err = errors.New("must be a network such as 203.0.113.0/24")
		}
		t.add(fmt.Sprintf("%s[%d]", at, i), err)
		all = append(all, read)
	}
	return all
}
