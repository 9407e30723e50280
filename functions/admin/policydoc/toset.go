package policydoc

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// Set returns the Set that the document describes, as an edit of current, and what cannot
// be read of it. A plan without a number keeps that of current's plan of the same name,
// or of the name that it was. Bounds are left to the Set's Validate.
func (p *Policy) Set(current *policy.Set) (policy.Set, []policy.FieldError) {
	var t toSet
	s := policy.Set{
		Version: p.Version, Plans: make([]policy.Plan, len(p.Plans)),
		PerIP: t.scope("perIP", p.PerIP), Global: t.scope("global", p.Global),
		Deny: t.networks("deny", p.Deny), Allow: t.networks("allow", p.Allow),
		Exempt:    t.networks("exempt", p.Exempt),
		TokenPlan: p.TokenPlan, AddressPlan: p.AddressPlan, Bans: t.bans(p.Bans),
		NextNumber: current.NextNumber,
	}
	for i, plan := range p.Plans {
		s.Plans[i] = t.plan(fmt.Sprintf("plans[%d].", i), plan)
		s.Plans[i].Number = plan.number(current, p.Plans)
	}
	for i, rule := range p.Routes {
		s.Routes = append(s.Routes, t.rule(fmt.Sprintf("routes[%d].", i), rule))
	}
	return s, t.fieldErrors
}

// number returns the number of the plan in current, 0 for a new one. A former name that
// another plan of the document has renames nothing.
func (p Plan) number(current *policy.Set, all []Plan) int {
	if p.Number != 0 {
		return p.Number
	}
	if known, found := current.Plan(p.Name); found {
		return known.Number
	}
	taken := slices.ContainsFunc(all, func(other Plan) bool { return other.Name == p.Was })
	if known, found := current.Plan(p.Was); found && !taken {
		return known.Number
	}
	return 0
}

// ToLimits returns the limits of a list at a place of a document, and what cannot be
// read of them.
func ToLimits(at string, list []Limit) ([]limiter.Limit, []policy.FieldError) {
	var t toSet
	return t.limits(at, list), t.fieldErrors
}

// ToLimit is ToLimits for one limit.
func ToLimit(at string, l Limit) (limiter.Limit, []policy.FieldError) {
	var t toSet
	return t.limit(at, l), t.fieldErrors
}

// ToPatterns returns the patterns of a list. Bounds are left to who validates them.
func ToPatterns(list []Pattern) []route.Pattern {
	var all []route.Pattern
	for _, p := range list {
		all = append(all, route.Pattern(p))
	}
	return all
}

// toSet makes the parts of a Set, and collects the fields that cannot be read.
type toSet struct{ fieldErrors []policy.FieldError }

func (t *toSet) add(field string, err error) {
	if err != nil {
		t.fieldErrors = append(t.fieldErrors, policy.FieldError{Field: field, Message: err.Error()})
	}
}

func (t *toSet) plan(at string, p Plan) policy.Plan {
	return policy.Plan{
		Name: p.Name, Limits: t.limits(at+"limits", p.Limits), Mode: p.Mode,
		Degraded: p.Degraded, Share: p.Share,
		Candidate: t.limits(at+"candidate", p.Candidate), PerGroup: t.limits(at+"perGroup", p.PerGroup),
		Allow: ToPatterns(p.Allow),
	}
}

func (t *toSet) rule(at string, w Rule) policy.Route {
	cost := int64(1)
	if w.Cost != nil {
		cost = *w.Cost
	}
	return policy.Route{
		Name: w.Name, Pattern: route.Pattern(w.Pattern), Cost: cost, Settle: w.Settle,
		SettleMax: w.SettleMax, Mode: w.Mode,
		PerKey: t.limits(at+"perKey", w.PerKey), PerIP: t.limits(at+"perIP", w.PerIP),
		Shared:      t.limits(at+"shared", w.Shared),
		SharedLease: t.duration(at+"sharedLease", w.SharedLease),
	}
}

func (t *toSet) scope(at string, s *Scope) policy.Scope {
	if s == nil {
		return policy.Scope{}
	}
	return policy.Scope{Limits: t.limits(at+".limits", s.Limits), Mode: s.Mode,
		Lease: t.duration(at+".lease", s.Lease)}
}

func (t *toSet) bans(b *Bans) *policy.Bans {
	if b == nil {
		return nil
	}
	return &policy.Bans{Denials: b.Denials, Window: t.duration("bans.window", b.Window),
		Base: t.duration("bans.base", b.Base), Cap: t.duration("bans.cap", b.Cap)}
}

func (t *toSet) limits(at string, list []Limit) []limiter.Limit {
	var all []limiter.Limit
	for i, l := range list {
		all = append(all, t.limit(fmt.Sprintf("%s[%d]", at, i), l))
	}
	return all
}

func (t *toSet) limit(at string, l Limit) limiter.Limit {
	read, fieldErrors := limiter.Text(l).Limit()
	for _, e := range fieldErrors {
		t.fieldErrors = append(t.fieldErrors,
			policy.FieldError{Field: at + "." + e.Field, Message: e.Message})
	}
	return read
}

// duration reads a duration; one that is left out is 0.
func (t *toSet) duration(at, text string) policy.Duration {
	if text == "" {
		return 0
	}
	read, err := limiter.ParseWindow(text)
	t.add(at, err)
	return policy.Duration(read)
}

// networks reads ranges of addresses; a single address is one too. Whether they are
// masked is left to the Set's Validate.
func (t *toSet) networks(at string, list []string) []netip.Prefix {
	var all []netip.Prefix
	for i, text := range list {
		read, err := netip.ParsePrefix(text)
		if a, notOne := netip.ParseAddr(text); notOne == nil && a.Zone() == "" {
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
