package limits

import (
	"slices"

	"tidegate/internal/limiter"
	"tidegate/internal/limiter/calendar"
)

// Source says where a limit stands.
type Source uint8

// The sources of limits.
const (
	FromPlan Source = iota
	FromPolicy
	FromOverride      // of the key
	FromGroupOverride // of the key's group
)

// Applied is a limit that applies to a call.
type Applied struct {
	Limit
	Source Source
	PlanID string // of FromPlan
	Index  int    // in the list where it stands
	Count  Count
	Cost   int64 // what the call takes
	Settle bool  // a backend settles the cost
	// CountsOnly means that an override replaces the limit: it goes on counting and denies
	// nothing.
	CountsOnly bool
}

// Setter names who set the limit.
func (a Applied) Setter() string {
	switch a.Source {
	case FromPlan:
		return "plan " + a.PlanID
	case FromOverride, FromGroupOverride:
		return "override"
	case FromPolicy:
	}
	return "policy"
}

// Counted returns the limit as package limiter counts it: in the count with this name, with
// the periods of its calendar.
func (a Applied) Counted(count string, p limiter.Periods) limiter.Applied {
	return limiter.Applied{Limit: a.Step(), Count: count, Cost: a.Cost, Owner: a.Setter(), Periods: p,
		Replaced: a.CountsOnly}
}

// To returns a candidate as it applies to a call, with the call's values and cost; ok is
// false if it does not. address says whether the call has an address that can be read.
func (a Applied) To(call *Call, address bool) (_ Applied, ok bool) {
	l := a.Limit
	if l.Who == EachAddress && !address {
		return a, false
	}
	if l.On != "" {
		m, under := call.under(l.On)
		if !under {
			return a, false
		}
		switch l.Who {
		case EachParam, CallerParam:
			a.Count.Value, _ = m.Value(l.Param)
		case CallerPattern:
			a.Count.Pattern = m.Pattern
		default:
		}
	}
	for _, text := range l.Except {
		if _, under := call.under(text); under {
			return a, false
		}
	}
	var has bool
	if a.Cost, a.Settle, has = call.Cost(l.Unit); l.AtOnce {
		a.Settle = true // which ends the call
	}
	return a, has
}

// Caller is what limits ask of a caller.
type Caller struct {
	Plan     *Plan   // nil for none
	Group    string  // empty for none
	Address  bool    // the call has an address that can be read
	Override []Limit // of the key or else of its group, in force now; nil for none
	Source   Source  // of Override
	InForce  bool    // an override is in force, perhaps an empty one

	Billing, GroupBilling Billing
}

// Applied lists the limits that apply to a call of a caller, those of the caller first.
func (p *Policy) Applied(caller Caller, call *Call) []Applied {
	var all []Applied
	for _, a := range p.Candidates(caller) {
		if a, ok := a.To(call, caller.Address); ok {
			all = append(all, a)
		}
	}
	return all
}

// Standing lists the limits that may apply to calls of a caller: those of each caller and,
// for a caller in a group, of each group. Their counts have no values of a call.
func (p *Policy) Standing(caller Caller) []Applied {
	return slices.DeleteFunc(p.Candidates(caller), func(a Applied) bool {
		return !a.Who.OfCaller() && a.Who != EachGroup
	})
}

// Candidates lists the limits that may apply to a call of a caller, those of the caller
// first. Their counts have no values of a call, and they have no costs.
func (p *Policy) Candidates(caller Caller) []Applied {
	var all []Applied
	add := func(l Limit, source Source, index int, replaced bool) {
		if l.Lifted || l.Who == EachGroup && caller.Group == "" {
			return
		}
		if l.Calendar == calendar.BillingMonth {
			by := caller.Billing
			if l.Who == EachGroup {
				by = caller.GroupBilling
			}
			l.Day, l.Zone = max(by.Day, 1), by.Zone
		}
		a := Applied{Limit: l, Source: source, Index: index, Count: p.count(l, source, caller),
			CountsOnly: replaced}
		if caller.Plan != nil && source == FromPlan {
			a.PlanID = caller.Plan.ID
		}
		all = append(all, a)
	}
	if caller.InForce {
		for i, l := range caller.Override {
			add(l, caller.Source, i, false)
		}
	}
	if caller.Plan != nil {
		lifted := caller.InForce && len(caller.Override) == 0 // an empty override lifts the plan's
		for i, l := range caller.Plan.Limits {
			add(l, FromPlan, i, lifted && l.Who.OfCaller() || caller.replaces(l))
		}
	}
	for i, l := range p.Limits {
		add(l, FromPolicy, i, caller.replaces(l))
	}
	slices.SortStableFunc(all, func(a, b Applied) int { return rank(a.Who) - rank(b.Who) })
	return all
}

// replaces reports whether the caller's override takes the place of a limit.
func (c Caller) replaces(l Limit) bool {
	return c.InForce && l.Who.OfCaller() &&
		slices.ContainsFunc(c.Override, func(by Limit) bool { return by.replaces(l) })
}

// replaces reports whether an override's limit takes the place of another: both are for
// each caller and have the same unit, on, except and parameter. A limit in shadow replaces
// none.
func (l Limit) replaces(other Limit) bool {
	return max(l.Who, EachCaller) == max(other.Who, EachCaller) && l.Param == other.Param &&
		l.Unit == other.Unit && l.AtOnce == other.AtOnce && l.On == other.On && slices.Equal(l.Except,
		other.Except) && !l.Shadow
}
