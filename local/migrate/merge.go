package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/route"
)

// merge adds the migrated plans that a policy lacks. A plan of the same name stays as it
// is; kept has a line for each whose limits differ. merge refuses a plan of the same name
// that opens other routes, since its keys would open them.
func merge(p *policydoc.Policy, migrated policydoc.Policy) (added int, kept []string, err error) {
	var errs []error
	for _, plan := range migrated.Plans {
		nameRoutes(plan.Limits, p.Routes)
		i := slices.IndexFunc(p.Plans, func(other policydoc.Plan) bool { return other.Name == plan.Name })
		if i < 0 {
			p.Plans = append(p.Plans, plan)
			added++
			continue
		}
		errs = append(errs, sameRoutes(p.Plans[i], plan))
		existing, exported := limitsText(p.Plans[i].Limits), limitsText(plan.Limits)
		if existing != exported {
			kept = append(kept, fmt.Sprintf("plan %s: limits: %s, not %s", plan.Name, existing, exported))
		}
	}
	return added, kept, errors.Join(errs...)
}

// nameRoutes writes the name of a route in place of its only pattern, as a policy must.
func nameRoutes(list []policydoc.Limit, routes []policydoc.Route) {
	for _, r := range routes {
		if len(r.Match) != 1 {
			continue
		}
		only := limits.PatternText(route.Pattern(r.Match[0]))
		for i := range list {
			if list[i].On == only {
				list[i].On = r.Name
			}
		}
	}
}

func limitsText(list []policydoc.Limit) string {
	valid, _ := policydoc.ToLimits("", list) // both are valid: one is stored, one was validated
	return cmp.Or(policydoc.LimitsText(valid), "none")
}

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
	before, after := all(existing.Opens), all(exported.Opens)
	if before == after {
		return nil
	}
	if before == "" {
		before = "all routes"
	}
	return fmt.Errorf("plan %s exists and opens %s, but its usage plan opens %s: rename one of them, or "+
		"make the plan's opens the same", existing.Name, before, after)
}
