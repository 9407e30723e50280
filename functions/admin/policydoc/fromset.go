package policydoc

import (
	"net/netip"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// PolicyOf returns the document of a Set.
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
			SharedLease: short(r.SharedLease),
		})
	}
	if b := s.Bans; b != nil {
		p.Bans = &Bans{b.Denials, short(b.Window), short(b.Base), short(b.Cap)}
	}
	return p
}

// PlanOf returns a plan as documents have it.
func PlanOf(p policy.Plan) Plan {
	return Plan{
		Number: p.Number, Name: p.Name, Limits: LimitsOf(p.Limits), Mode: p.Mode,
		Degraded: p.Degraded, Share: p.Share, Candidate: LimitsOf(p.Candidate),
		PerGroup: LimitsOf(p.PerGroup), Allow: PatternsOf(p.Allow),
	}
}

// LimitOf returns a limit as documents have it.
func LimitOf(l limiter.Limit) Limit { return Limit(l.Text()) }

// LimitsOf is LimitOf for a list; it is empty, not nil, without limits.
func LimitsOf(limits []limiter.Limit) []Limit {
	all := make([]Limit, len(limits))
	for i, l := range limits {
		all[i] = LimitOf(l)
	}
	return all
}

// PatternsOf returns route patterns as documents have them.
func PatternsOf(list []route.Pattern) []Pattern {
	var all []Pattern
	for _, p := range list {
		all = append(all, Pattern(p))
	}
	return all
}

func scopeOf(s policy.Scope) *Scope {
	if len(s.Limits) == 0 && s.Mode == "" && s.Lease == 0 {
		return nil
	}
	return &Scope{Limits: LimitsOf(s.Limits), Mode: s.Mode, Lease: short(s.Lease)}
}

// short writes a duration as "10s"; 0 is empty.
func short(d policy.Duration) string {
	if d == 0 {
		return ""
	}
	return limiter.ShortWindow(time.Duration(d))
}

func networks(list []netip.Prefix) []string {
	var all []string
	for _, p := range list {
		all = append(all, p.String())
	}
	return all
}
