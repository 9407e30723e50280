package limits

import (
	"fmt"
	"slices"
	"strings"
)

// Warning says that a limit does not do what its author may expect. It can be saved.
type Warning struct{ Field, Message string }

// Warnings returns what an operator should know before saving the policy.
func (p *Policy) Warnings() []Warning {
	var all []Warning
	add := func(field, format string, args ...any) {
		all = append(all, Warning{field, fmt.Sprintf(format, args...)})
	}
	units := p.units()
	limits := p.all()
	for _, l := range limits {
		if l.Unit != Cost && l.Unit != Calls && !slices.Contains(units, l.Unit) {
			named := "they name no unit"
			if len(units) > 0 {
				named = "they name: " + strings.Join(units, ", ")
			}
			add(l.field, "No route's cost names %s (%s), so %q counts only direct calls that bring it.",
				l.Unit, named, l)
		}
		if l.AtOnce && !p.ends(l.Limit) {
			add(l.field, "No route that settles is under %q: each call counts for %s, unless a direct "+
				"call ends it.",
				l, FormatWindow(l.Window))
		}
		if by, found := p.decidedBy(l, limits); found {
			add(l.field, "%q never decides: %q denies every call before it.", l, by)
		}
		if l.Who == EachParam && !p.held(l, limits) {
			add(l.field, "%q counts each value that callers make up: "+
				"add a limit of each caller on the same calls.", l)
		}
	}
	for i, plan := range p.Plans {
		holds := func(l where) bool { return !l.Shadow && (l.plan == i || l.plan < 0) }
		if !slices.ContainsFunc(limits, holds) {
			add(fmt.Sprintf("plans[%d].limits", i), "Nothing limits the callers of plan %s.", plan.Name)
		}
	}
	return all
}

// OverrideWarnings returns what an operator should know before saving an override, beside
// the policy's limits that it does not replace.
func (p *Policy) OverrideWarnings(list []Limit) []string {
	if len(list) == 0 {
		return nil
	}
	c := Caller{Override: list, InForce: true}
	beside := Policy{Routes: p.Routes, Limits: slices.DeleteFunc(slices.Clone(p.Limits), c.replaces),
		Plans: []Plan{{Name: "override",
			Limits: slices.DeleteFunc(slices.Clone(list), func(l Limit) bool { return l.Lifted })}}}
	var all []string
	for _, w := range beside.Warnings() {
		if strings.HasPrefix(w.Field, "plans[0].limits[") {
			all = append(all, w.Message)
		}
	}
	return all
}

// ends reports whether some calls under a limit are settled.
func (p *Policy) ends(l Limit) bool {
	return slices.ContainsFunc(p.Routes, func(r Route) bool {
		return r.Settle && !slices.Contains(l.Except, r.Name) &&
			(l.On == "" || l.On == r.Name || p.overlap(l.On, r.Match))
	})
}

// units lists the units that the routes' costs name, besides Cost.
func (p *Policy) units() []string {
	var units []string
	for _, r := range p.Routes {
		for unit := range r.Cost.Units {
			if unit != Cost {
				units = append(units, unit)
			}
		}
	}
	slices.Sort(units)
	return slices.Compact(units)
}

// held reports whether an enforced limit of each caller holds the same calls, in every
// plan whose callers l counts.
func (p *Policy) held(l where, limits []where) bool {
	for i := range p.Plans {
		if l.plan >= 0 && l.plan != i {
			continue
		}
		if !slices.ContainsFunc(limits, func(by where) bool {
			return by.Who <= EachCaller && !by.Shadow && (by.plan < 0 || by.plan == i) &&
				(by.On == "" || by.On == l.On) && subset(by.Except, l.Except)
		}) {
			return false
		}
	}
	return true
}

func subset(of, all []string) bool {
	return !slices.ContainsFunc(of, func(text string) bool { return !slices.Contains(all, text) })
}

// decidedBy returns a limit that denies every call that l would deny.
func (p *Policy) decidedBy(l where, limits []where) (by Limit, found bool) {
	for _, by := range limits {
		if by.field != l.field && !by.Shadow && (by.plan < 0 || by.plan == l.plan) && by.counts(l.Limit) &&
			by.implies(l.Limit) && (!l.implies(by.Limit) || by.field < l.field) {
			return by.Limit, true
		}
	}
	return Limit{}, false
}
