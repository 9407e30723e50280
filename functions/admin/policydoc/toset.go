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
	var r reader
	s := policy.Set{
		Version: p.Version, Plans: make([]policy.Plan, len(p.Plans)),
		PerIP: r.scope("perIP", p.PerIP), Global: r.scope("global", p.Global),
		Deny: r.networks("deny", p.Deny), Allow: r.networks("allow", p.Allow),
		Exempt:    r.networks("exempt", p.Exempt),
		TokenPlan: p.TokenPlan, AddressPlan: p.AddressPlan, Bans: r.bans(p.Bans),
		NextNumber: current.NextNumber,
	}
	for i, plan := range p.Plans {
		s.Plans[i] = r.plan(fmt.Sprintf("plans[%d].", i), plan)
		s.Plans[i].Number = plan.number(current, p.Plans)
	}
	for i, rule := range p.Routes {
		s.Routes = append(s.Routes, r.rule(fmt.Sprintf("routes[%d].", i), rule))
	}
	return s, r.fieldErrors
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

// ReadLimits returns the limits of a list at a place of a document, and what cannot be
// read of them.
func ReadLimits(at string, list []Limit) ([]limiter.Limit, []policy.FieldError) {
	var r reader
	return r.limits(at, list), r.fieldErrors
}

// ReadLimit is ReadLimits for one limit.
func ReadLimit(at string, l Limit) (limiter.Limit, []policy.FieldError) {
	var r reader
	return r.limit(at, l), r.fieldErrors
}

// ReadPatterns returns the patterns of a list. Bounds are left to who validates them.
func ReadPatterns(list []Pattern) []route.Pattern {
	var all []route.Pattern
	for _, p := range list {
		all = append(all, route.Pattern(p))
	}
	return all
}

// reader collects the fields that cannot be read.
type reader struct{ fieldErrors []policy.FieldError }

func (r *reader) add(field string, err error) {
	if err != nil {
		r.fieldErrors = append(r.fieldErrors, policy.FieldError{Field: field, Message: err.Error()})
	}
}

func (r *reader) plan(at string, p Plan) policy.Plan {
	return policy.Plan{
		Name: p.Name, Limits: r.limits(at+"limits", p.Limits), Mode: p.Mode,
		Degraded: p.Degraded, Share: p.Share,
		Candidate: r.limits(at+"candidate", p.Candidate), PerGroup: r.limits(at+"perGroup", p.PerGroup),
		Allow: ReadPatterns(p.Allow),
	}
}

func (r *reader) rule(at string, w Rule) policy.Route {
	cost := int64(1)
	if w.Cost != nil {
		cost = *w.Cost
	}
	return policy.Route{
		Name: w.Name, Pattern: route.Pattern(w.Pattern), Cost: cost, Settle: w.Settle,
		SettleMax: w.SettleMax, Mode: w.Mode,
		PerKey: r.limits(at+"perKey", w.PerKey), PerIP: r.limits(at+"perIP", w.PerIP),
		Shared:      r.limits(at+"shared", w.Shared),
		SharedLease: r.duration(at+"sharedLease", w.SharedLease),
	}
}

func (r *reader) scope(at string, s *Scope) policy.Scope {
	if s == nil {
		return policy.Scope{}
	}
	return policy.Scope{Limits: r.limits(at+".limits", s.Limits), Mode: s.Mode,
		Lease: r.duration(at+".lease", s.Lease)}
}

func (r *reader) bans(b *Bans) *policy.Bans {
	if b == nil {
		return nil
	}
	return &policy.Bans{Denials: b.Denials, Window: r.duration("bans.window", b.Window),
		Base: r.duration("bans.base", b.Base), Cap: r.duration("bans.cap", b.Cap)}
}

func (r *reader) limits(at string, list []Limit) []limiter.Limit {
	var all []limiter.Limit
	for i, l := range list {
		all = append(all, r.limit(fmt.Sprintf("%s[%d]", at, i), l))
	}
	return all
}

func (r *reader) limit(at string, l Limit) limiter.Limit {
	read, fieldErrors := limiter.Text(l).Limit()
	for _, e := range fieldErrors {
		r.fieldErrors = append(r.fieldErrors,
			policy.FieldError{Field: at + "." + e.Field, Message: e.Message})
	}
	return read
}

// duration reads a duration; one that is left out is 0.
func (r *reader) duration(at, text string) policy.Duration {
	if text == "" {
		return 0
	}
	read, err := limiter.ParseWindow(text)
	r.add(at, err)
	return policy.Duration(read)
}

// networks reads ranges of addresses; a single address is one too. Whether they are
// masked is left to the Set's Validate.
func (r *reader) networks(at string, list []string) []netip.Prefix {
	var all []netip.Prefix
	for i, text := range list {
		read, err := netip.ParsePrefix(text)
		if a, notOne := netip.ParseAddr(text); notOne == nil && a.Zone() == "" {
			read, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			err = errors.New("must be a network such as 203.0.113.0/24")
		}
		r.add(fmt.Sprintf("%s[%d]", at, i), err)
		all = append(all, read)
	}
	return all
}
