package policy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/route"
)

// Bounds of a Set.
const (
	MaxPlans          = 500
	MaxPrefixes       = 500 // in each list of addresses
	MaxSetBytes       = 1 << 20
	MaxGroupOverrides = 100
	MaxGroupBilling   = 1000
)

// Validate returns an *InvalidError with everything that is wrong with a Set.
func (s *Set) Validate() error { return Invalid(s.errors()) }

func (s *Set) errors() []FieldError {
	fields := fieldErrors(slices.Concat(
		s.planErrors(), prefixErrors("deny", s.Deny), prefixErrors("allow", s.Allow),
		prefixErrors("exempt", s.Exempt), s.groupErrors()))
	fields.addLimits(s.Language().Errors())
	for field, name := range map[string]string{"tokenPlan": s.TokenPlan, "addressPlan": s.AddressPlan} {
		if _, found := s.Plan(name); name != "" && !found {
			fields = append(fields, FieldError{field, fmt.Sprintf("no plan is named %.100q", name)})
		}
	}
	return fields
}

// tooMany says that a list is longer than its bound, and what to do.
func tooMany(n, most int, advice string) string {
	return fmt.Sprintf("%d given: must be at most %d. %s", n, most, advice)
}

func (s *Set) groupErrors() []FieldError {
	var fields fieldErrors
	if n := len(s.GroupOverrides); n > MaxGroupOverrides {
		fields.add("groupOverrides", tooMany(n, MaxGroupOverrides,
			"End another first, or give the keys of a group a plan with these limits"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.GroupOverrides)) {
		at := "groupOverrides." + name
		fields.add(at, GroupProblem(name))
		o := s.GroupOverrides[name]
		fields = append(fields, o.errors(at+".", s, nil)...)
	}
	if n := len(s.GroupBilling); n > MaxGroupBilling {
		fields.add("groupBilling", tooMany(n, MaxGroupBilling,
			"Leave out groups whose billing months begin on the first day of a month"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.GroupBilling)) {
		at := "groupBilling." + name
		fields.add(at, GroupProblem(name))
		fields = append(fields, billingErrors(at+".", s.GroupBilling[name])...)
	}
	return fields
}

// billingErrors returns what is wrong with a Billing; at is its place, with a final dot.
func billingErrors(at string, b limits.Billing) []FieldError {
	var fields fieldErrors
	for _, e := range b.Errors() {
		fields.add(at+e.Field, e.Message)
	}
	return fields
}

func (s *Set) planErrors() []FieldError {
	if len(s.Plans) > MaxPlans {
		return []FieldError{{"plans", tooMany(len(s.Plans), MaxPlans,
			"Give callers that differ in their limits alone one plan, and a key or a group an override")}}
	}
	var fields fieldErrors
	seen := map[string]bool{}
	for i, p := range s.Plans {
		at := fmt.Sprintf("plans[%d].", i)
		fields.add(at+"name", nameProblem(p.Name, seen))
		fields = append(fields, opensErrors(at+"opens", p.Opens)...)
		switch p.Degraded {
		case "", Closed, Open:
			if p.Share != 0 {
				fields.add(at+"share", fmt.Sprintf("is %d: only degraded local has a share", p.Share))
			}
		case Local:
			if p.Share < 1 || p.Share > 100 {
				fields.add(at+"share", fmt.Sprintf("is %d: must be 1 to 100 percent", p.Share))
			}
		default:
			fields.add(at+"degraded",
				fmt.Sprintf("is %.20q: must be closed, open or local", string(p.Degraded)))
		}
	}
	return fields
}

// opensErrors validates a list of patterns; field is its name.
func opensErrors(field string, opens []route.Pattern) []FieldError {
	if len(opens) > MaxOpens {
		return []FieldError{{field, tooMany(len(opens), MaxOpens,
			"Let patterns with * or {name} match several routes")}}
	}
	var fields []FieldError
	for i, p := range opens {
		for _, e := range p.Errors() {
			fields = append(fields, FieldError{fmt.Sprintf("%s[%d].%s", field, i, e.Field), e.Message})
		}
	}
	return fields
}

func prefixErrors(field string, list []netip.Prefix) []FieldError {
	if len(list) > MaxPrefixes {
		return []FieldError{{field, tooMany(len(list), MaxPrefixes,
			"Join neighbours into shorter prefixes, or keep the list in AWS WAF")}}
	}
	var fields []FieldError
	for i, p := range list {
		if !p.IsValid() || p.Addr().Is4In6() || p.Masked() != p {
			fields = append(fields, FieldError{fmt.Sprintf("%s[%d]", field, i),
				fmt.Sprintf("is %s: must be a network such as 203.0.113.0/24", p)})
		}
	}
	return fields
}

// TimeProblem returns the problem of the end of a key, a ban or an override; empty if it is
// valid.
func TimeProblem(t time.Time) string {
	if !t.IsZero() && (t.Year() < 2000 || t.Year() > 2200) {
		return fmt.Sprintf("is %s: must lie between 2000 and 2200", t.Format(time.DateOnly))
	}
	return ""
}
