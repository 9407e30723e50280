package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// merge adds the migrated plans and rules that a policy lacks. A plan of the same name and
// a rule of the same pattern stay as they are; kept has a line for each difference. merge
// refuses a plan of the same name that opens other routes, since its keys would open them.
func merge(p *policydoc.Policy, migrated policydoc.Policy) (added int, kept []string, err error) {
	var errs []error
	for _, plan := range migrated.Plans {
		i := slices.IndexFunc(p.Plans, func(other policydoc.Plan) bool { return other.Name == plan.Name })
		if i < 0 {
			p.Plans = append(p.Plans, plan)
			added++
			continue
		}
		errs = append(errs, sameRoutes(p.Plans[i], plan))
		name := "plan " + plan.Name
		kept = append(kept,
			difference(name, "limits", limitsText(p.Plans[i].Limits), limitsText(plan.Limits)),
			difference(name, "mode", modeText(p.Plans[i].Mode), modeText(plan.Mode)))
	}
	for _, rule := range migrated.Routes {
		i := slices.IndexFunc(p.Routes, func(other policydoc.Rule) bool {
			return pattern(other.Pattern) == pattern(rule.Pattern)
		})
		if i < 0 {
			p.Routes = append(p.Routes, rule)
			added++
			continue
		}
		name := "route " + p.Routes[i].Name
		kept = append(kept,
			difference(name, "each key", limitsText(p.Routes[i].PerKey), limitsText(rule.PerKey)),
			difference(name, "mode", modeText(p.Routes[i].Mode), modeText(rule.Mode)))
	}
	return added, slices.DeleteFunc(kept, func(line string) bool { return line == "" }), errors.Join(errs...)
}

// difference returns a line for a field of an existing plan or rule; empty if the migrated
// one has the same.
func difference(name, field, existing, exported string) string {
	if existing == exported {
		return ""
	}
	return fmt.Sprintf("%s: %s: %s, not %s", name, field, existing, exported)
}

func limitsText(list []policydoc.Limit) string {
	limits, _ := policydoc.ToLimits("", list) // both are valid: one is stored, one was validated
	if len(limits) == 0 {
		return "none"
	}
	return policydoc.LimitsText(limits)
}

func modeText(m policy.Mode) string { return string(policy.OrEnforce(m)) }

// pattern returns a pattern in its one form: the same calls, the same text.
func pattern(p policydoc.Pattern) string {
	for _, field := range []*string{&p.API, &p.Stage, &p.Method, &p.Path} {
		if *field == "*" {
			*field = ""
		}
	}
	return route.Pattern(p).String()
}

// sameRoutes returns an error unless the keys of both plans may call the same routes.
func sameRoutes(existing, exported policydoc.Plan) error {
	all := func(list []policydoc.Pattern) string {
		var texts []string
		for _, p := range list {
			texts = append(texts, pattern(p))
		}
		slices.Sort(texts)
		return strings.Join(slices.Compact(texts), ", ")
	}
	before, after := all(existing.Allow), all(exported.Allow)
	if before == after {
		return nil
	}
	if before == "" {
		before = "all routes"
	}
	return fmt.Errorf("plan %s exists and opens %s, but its usage plan opens %s: rename one of them, or "+
		"make the plan's allow the same", existing.Name, before, after)
}
