// Package policydoc owns the document form of a policy set: JSON for the API, YAML for
// policy files, with limits in words ("100 per 10 seconds"). It converts documents to and
// from a policy.Set, and describes sets and their differences in the words that pages use
// too. Packages app, api and dashboard import it. It must not read or change the store.
package policydoc

import (
	"errors"
	"fmt"
	"net/netip"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// Policy is the document of a policy set: all configuration except the keys.
type Policy struct {
	Version     int64    `json:"version,omitempty" yaml:"version,omitempty" readOnly:"true" doc:"Version, as in the ETag. A change is checked against If-Match, not against this field"`
	Plans       []Plan   `json:"plans" yaml:"plans,omitempty" maxItems:"500"`
	Routes      []Rule   `json:"routes,omitempty" yaml:"routes,omitempty" maxItems:"500"`
	PerIP       *Scope   `json:"perIP,omitempty" yaml:"perIP,omitempty" doc:"Limits per client address"`
	Global      *Scope   `json:"global,omitempty" yaml:"global,omitempty" doc:"Global limits"`
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
	Name     string          `json:"name" yaml:"name" minLength:"1" maxLength:"100"`
	Was      string          `json:"-" yaml:"was,omitempty"`
	Limits   []Limit         `json:"limits" yaml:"limits" minItems:"1" maxItems:"8"`
	Mode     policy.Mode     `json:"mode,omitempty" yaml:"mode,omitempty" enum:"enforce,shadow"`
	Degraded policy.Degraded `json:"degraded,omitempty" yaml:"degraded,omitempty" enum:"closed,open,local" doc:"What happens to calls while Valkey is unavailable"`
	Share    int             `json:"share,omitempty" yaml:"share,omitempty" minimum:"0" maximum:"100" doc:"With local: percentage of each limit that one Lambda environment admits"`
	PerGroup []Limit         `json:"perGroup,omitempty" yaml:"perGroup,omitempty" maxItems:"8" doc:"Limits that the keys of a group share"`
	Allow    []Pattern       `json:"allow,omitempty" yaml:"allow,omitempty" maxItems:"20" doc:"Routes that the plan's keys may call; if omitted, all routes"`
}

// Rule is a route rule.
type Rule struct {
	Name      string      `json:"name" yaml:"name" minLength:"1" maxLength:"100"`
	Pattern   Pattern     `json:"pattern" yaml:"pattern"`
	Cost      *int64      `json:"cost,omitempty" yaml:"cost,omitempty" minimum:"0" maximum:"1000000000" doc:"Cost of a call; default 1. A call of cost 0 is not limited"`
	Settle    bool        `json:"settle,omitempty" yaml:"settle,omitempty" doc:"The backend settles the cost after the call"`
	SettleMax int64       `json:"settleMax,omitempty" yaml:"settleMax,omitempty" minimum:"1" maximum:"1000000000" doc:"Most that a settlement charges to shared limits; at least cost, default 10 times cost"`
	Mode      policy.Mode `json:"mode,omitempty" yaml:"mode,omitempty" enum:"enforce,shadow"`
	PerKey    []Limit     `json:"perKey,omitempty" yaml:"perKey,omitempty" maxItems:"8"`
	PerIP     []Limit     `json:"perIP,omitempty" yaml:"perIP,omitempty" maxItems:"8"`
	Shared    []Limit     `json:"shared,omitempty" yaml:"shared,omitempty" maxItems:"8"`
}

// Pattern selects the calls of a rule. An empty field matches any call. In YAML it is a
// route such as "GET /orders/{id}", or a mapping of its fields.
type Pattern struct {
	API    string `json:"api,omitempty" yaml:"api,omitempty" maxLength:"64"`
	Stage  string `json:"stage,omitempty" yaml:"stage,omitempty" maxLength:"128"`
	Method string `json:"method,omitempty" yaml:"method,omitempty" maxLength:"16" doc:"GET covers HEAD unless a rule names HEAD; ANY is every method"`
	Path   string `json:"path,omitempty" yaml:"path,omitempty" maxLength:"512" example:"/orders/{id}"`
}

// Scope is a list of limits on something other than a caller.
type Scope struct {
	Limits []Limit     `json:"limits,omitempty" yaml:"limits,omitempty" maxItems:"8"`
	Mode   policy.Mode `json:"mode,omitempty" yaml:"mode,omitempty" enum:"enforce,shadow"`
}

// Limit is the document form of a limit. In YAML it is the text of LimitText, or a mapping
// of its fields if the text would lose something.
type Limit limiter.Text

// PolicyOf returns the document of a set.
func PolicyOf(s *policy.Set) Policy {
	p := Policy{
		Version: s.Version, Plans: make([]Plan, len(s.Plans)), PerIP: scopeOf(s.PerIP),
		Global: scopeOf(s.Global),
		Deny:   networks(s.Deny), Allow: networks(s.Allow), Exempt: networks(s.Exempt),
		TokenPlan: s.TokenPlan, AddressPlan: s.AddressPlan,
	}
	for i, plan := range s.Plans {
		p.Plans[i] = PlanOf(plan)
	}
	for _, r := range s.Routes {
		p.Routes = append(p.Routes, Rule{
			Name: r.Name, Pattern: Pattern(r.Pattern), Cost: &r.Cost, Settle: r.Settle,
			SettleMax: r.SettleMax, Mode: r.Mode,
			PerKey: LimitsOf(r.PerKey), PerIP: LimitsOf(r.PerIP), Shared: LimitsOf(r.Shared),
		})
	}
	return p
}

// PlanOf returns the document form of a plan.
func PlanOf(p policy.Plan) Plan {
	return Plan{
		Number: p.Number, Name: p.Name, Limits: LimitsOf(p.Limits), Mode: p.Mode,
		Degraded: p.Degraded, Share: p.Share,
		PerGroup: LimitsOf(p.PerGroup), Allow: PatternsOf(p.Allow),
	}
}

// LimitOf returns the document form of a limit.
func LimitOf(l limiter.Limit) Limit { return Limit(l.Text()) }

// LimitsOf returns the document form of limits. It is empty, not nil, without limits.
func LimitsOf(limits []limiter.Limit) []Limit {
	all := make([]Limit, len(limits))
	for i, l := range limits {
		all[i] = LimitOf(l)
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

func scopeOf(s policy.Scope) *Scope {
	if len(s.Limits) == 0 && s.Mode == "" {
		return nil
	}
	return &Scope{Limits: LimitsOf(s.Limits), Mode: s.Mode}
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
// former name. Set checks no bounds; policy.Set.Validate does.
func (p *Policy) Set(current *policy.Set) (policy.Set, []policy.FieldError) {
	var t parser
	s := policy.Set{
		Version: p.Version, Plans: make([]policy.Plan, len(p.Plans)),
		PerIP: t.scope("perIP", p.PerIP), Global: t.scope("global", p.Global),
		Deny: t.networks("deny", p.Deny), Allow: t.networks("allow", p.Allow),
		Exempt:    t.networks("exempt", p.Exempt),
		TokenPlan: p.TokenPlan, AddressPlan: p.AddressPlan,
		NextNumber: current.NextNumber, GroupOverrides: current.GroupOverrides,
	}
	for i, plan := range p.Plans {
		s.Plans[i] = t.plan(fmt.Sprintf("plans[%d].", i), plan)
		s.Plans[i].Number = plan.number(current)
	}
	for i, rule := range p.Routes {
		s.Routes = append(s.Routes, t.rule(fmt.Sprintf("routes[%d].", i), rule))
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

// ToLimits parses limits. at is their place in the document, for the returned errors.
func ToLimits(at string, list []Limit) ([]limiter.Limit, []policy.FieldError) {
	var t parser
	return t.limits(at, list), t.fieldErrors
}

// ToLimit parses a limit. at is its place in the document, for the returned errors.
func ToLimit(at string, l Limit) (limiter.Limit, []policy.FieldError) {
	var t parser
	return t.limit(at, l), t.fieldErrors
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

func (t *parser) plan(at string, p Plan) policy.Plan {
	return policy.Plan{
		Name: p.Name, Limits: t.limits(at+"limits", p.Limits), Mode: p.Mode,
		Degraded: p.Degraded, Share: p.Share,
		PerGroup: t.limits(at+"perGroup", p.PerGroup),
		Allow:    ToPatterns(p.Allow),
	}
}

func (t *parser) rule(at string, w Rule) policy.Route {
	cost := int64(1)
	if w.Cost != nil {
		cost = *w.Cost
	}
	return policy.Route{
		Name: w.Name, Pattern: route.Pattern(w.Pattern), Cost: cost, Settle: w.Settle,
		SettleMax: w.SettleMax, Mode: w.Mode,
		PerKey: t.limits(at+"perKey", w.PerKey), PerIP: t.limits(at+"perIP", w.PerIP),
		Shared: t.limits(at+"shared", w.Shared),
	}
}

func (t *parser) scope(at string, s *Scope) policy.Scope {
	if s == nil {
		return policy.Scope{}
	}
	return policy.Scope{Limits: t.limits(at+".limits", s.Limits), Mode: s.Mode}
}

func (t *parser) limits(at string, list []Limit) []limiter.Limit {
	var all []limiter.Limit
	for i, l := range list {
		all = append(all, t.limit(fmt.Sprintf("%s[%d]", at, i), l))
	}
	return all
}

func (t *parser) limit(at string, l Limit) limiter.Limit {
	read, fieldErrors := limiter.Text(l).Limit()
	for _, e := range fieldErrors {
		t.fieldErrors = append(t.fieldErrors,
			policy.FieldError{Field: at + "." + e.Field, Message: e.Message})
	}
	return read
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
