package limits

import (
	"fmt"
	"slices"
	"strings"

	"tidegate/internal/limiter"
	"tidegate/internal/route"
)

// isScope reports whether a text is a scope, as RFC 6749 spells it.
func isScope(text string) bool {
	return text != "" && len(text) <= 256 && !strings.ContainsFunc(text, func(r rune) bool {
		return r < '!' || r > '~' || r == '"' || r == '\\'
	})
}

// Errors returns everything that is wrong with the limits and routes of a policy, a
// FieldError a field.
func (p *Policy) Errors() []FieldError {
	errs := p.routeErrors()
	for i, plan := range p.Plans {
		if n := len(plan.Limits); n > MaxPlanLimits {
			errs = append(errs, FieldError{fmt.Sprintf("plans[%d].limits", i),
				fmt.Sprintf("%d given: a plan has at most %d", n, MaxPlanLimits)})
		}
		errs = append(errs, repeated(fmt.Sprintf("plans[%d].limits", i), plan.Limits)...)
	}
	if n := len(p.Limits); n > MaxPolicyLimits {
		errs = append(errs, FieldError{"limits", fmt.Sprintf("%d given: the policy has at most %d of its "+
			"own; put limits of some callers into their plans", n, MaxPolicyLimits)})
	}
	errs = append(errs, repeated("limits", p.Limits)...)
	for _, l := range p.all() {
		errs = append(errs, p.limitErrors(l)...)
	}
	if len(errs) > 0 {
		return errs
	}
	for i := range p.Plans {
		errs = append(errs, p.countErrors(fmt.Sprintf("plans[%d].limits", i), p.Plans[i].Limits, nil)...)
	}
	if len(p.Plans) == 0 {
		errs = append(errs, p.countErrors("limits", nil, nil)...)
	}
	return errs
}

// repeated returns an error for each limit that stands in a list twice, and for a token
// bucket that differs from another only in its number: both would be one bucket.
func repeated(field string, list []Limit) []FieldError {
	var errs []FieldError
	seen := map[string]bool{}
	for i, l := range list {
		same, bucket := l, l
		same.Who = max(l.Who, EachCaller) // which may be left unsaid
		if bucket.Who, bucket.Requests = same.Who, 1; l.Algorithm == limiter.TokenBucket {
			bucket.Notify = nil
		}
		switch at := fmt.Sprintf("%s[%d]", field, i); {
		case seen[same.String()]:
			errs = append(errs, FieldError{at, fmt.Sprintf("%q is there twice: remove one", l)})
		case l.Algorithm == limiter.TokenBucket && seen["bucket "+bucket.String()]:
			errs = append(errs, FieldError{at, fmt.Sprintf("%q is a second token bucket of the same calls "+
				"and window: remove the one with the larger number", l)})
		}
		seen[same.String()], seen["bucket "+bucket.String()] = true, true
	}
	return errs
}

// OverrideErrors returns everything that is wrong with an override for the callers of a
// plan; plan is nil where any may be theirs.
func (p *Policy) OverrideErrors(field string, list []Limit, plan *Plan) []FieldError {
	if n := len(list); n > MaxPlanLimits {
		return []FieldError{{field, fmt.Sprintf("%d given: an override has at most %d", n, MaxPlanLimits)}}
	}
	errs := repeated(field, list)
	for i, l := range list {
		at := where{l, fmt.Sprintf("%s[%d]", field, i), FromOverride, -1}
		errs = append(errs, p.limitErrors(at)...)
		if !l.Who.OfCaller() {
			errs = append(errs, FieldError{at.field, fmt.Sprintf("is %s: an override has limits of each "+
				"caller; change this one in the plan or the policy", l.For())})
		}
	}
	if len(errs) > 0 {
		return errs
	}
	if plan != nil {
		return p.countErrors(field, plan.Limits, list)
	}
	for i := range p.Plans {
		if errs := p.countErrors(field, p.Plans[i].Limits, list); len(errs) > 0 {
			return errs
		}
	}
	return nil
}

func (p *Policy) routeErrors() []FieldError {
	var errs []FieldError
	add := func(field, problem string) {
		if problem != "" {
			errs = append(errs, FieldError{field, problem})
		}
	}
	if n := len(p.Routes); n > MaxRoutes {
		add("routes", fmt.Sprintf("%d given: must be at most %d; give a route several patterns",
			n, MaxRoutes))
	}
	names, stated := map[string]bool{}, map[string]string{}
	scoped := map[string]string{} // by pattern
	for i, r := range p.Routes {
		at := fmt.Sprintf("routes[%d]", i)
		add(at+".name", nameProblem(r.Name))
		if names[r.Name] {
			add(at+".name", fmt.Sprintf("is %q, as another route's: names must differ", r.Name))
		}
		names[r.Name] = true
		errs = append(errs, r.scopeErrors(at)...)
		if n := len(r.Match); n < 1 || n > MaxPatterns {
			add(at+".match", fmt.Sprintf("has %d patterns: must have 1 to %d", n, MaxPatterns))
		}
		errs = append(errs, r.Cost.Errors(at+".cost")...)
		own := map[string]bool{}
		for j, pattern := range r.Match {
			field := fmt.Sprintf("%s.match[%d]", at, j)
			if err := pattern.Validate(); err != nil {
				add(field, strings.ReplaceAll(err.Error(), "\n", "; "))
				continue
			}
			key := pattern.Canonical()
			if own[key] {
				add(field, fmt.Sprintf("is %s, which matches the same calls as another of the route's: "+
					"remove one", PatternText(pattern)))
			}
			own[key] = true
		}
		for key := range own {
			for _, unit := range r.costs().names() {
				if other := stated[key+" "+unit]; other != "" {
					add(at+".cost", fmt.Sprintf("says what %s costs, as route %s does for the same "+
						"pattern: let one say it", unitWords(unit), other))
				}
				stated[key+" "+unit] = r.Name
			}
			if len(r.Scopes) == 0 {
				continue
			}
			if other := scoped[key]; other != "" {
				add(at+".scopes",
					fmt.Sprintf("has scopes for the same pattern as route %s: let one have them",
						other))
			}
			scoped[key] = r.Name
		}
	}
	return errs
}

// scopeErrors returns what is wrong with the scopes of a route; at is its place.
func (r *Route) scopeErrors(at string) (errs []FieldError) {
	if n := len(r.Scopes); n > MaxScopes {
		errs = append(errs, FieldError{at + ".scopes",
			fmt.Sprintf("has %d scopes: must have at most %d", n, MaxScopes)})
	}
	for j, scope := range r.Scopes {
		if !isScope(scope) {
			errs = append(errs, FieldError{fmt.Sprintf("%s.scopes[%d]", at, j),
				fmt.Sprintf("is %.60q: must be 1 to 256 printable ASCII characters without spaces and quotes",
					scope)})
		}
	}
	return errs
}

func unitWords(unit string) string {
	if unit == Cost {
		return "a call"
	}
	return "a call in " + unit
}

// limitErrors returns what is wrong with a limit in its place.
func (p *Policy) limitErrors(l where) []FieldError {
	var errs []FieldError
	add := func(field, format string, args ...any) {
		at := l.field
		if field != "" {
			at += "." + field
		}
		errs = append(errs, FieldError{at, fmt.Sprintf(format, args...)})
	}
	for _, e := range l.Errors() {
		add(e.Field, "%s", e.Message)
	}
	if l.source == FromPolicy && l.Who == Unsaid && !l.Lifted {
		add("each", "is missing. For whom? Write %s, each caller; each address; or together", l.Rate())
	}
	if l.Lifted && l.source != FromOverride {
		add("", "is no limit: only an override lifts limits; remove it")
	}
	for i, text := range append([]string{l.On}, l.Except...) {
		field := "on"
		if i > 0 {
			field = fmt.Sprintf("except[%d]", i-1)
		}
		if problem := p.targetProblem(text, field); problem != "" {
			add(field, "%s", problem)
		}
	}
	if len(errs) > 0 {
		return errs
	}
	if problem := p.paramProblem(l.Limit); problem != "" {
		add("each", "%s", problem)
	}
	if r, cost := p.dearest(l.Limit); !l.Lifted && cost > l.Requests {
		add("requests", "is %s: a call of route %s costs %s and could never pass", Number(l.Requests), r.Name,
			Number(cost))
	}
	return errs
}

// targetProblem returns the problem of a route or pattern that a limit names.
func (p *Policy) targetProblem(text, field string) string {
	if text == "" {
		return ""
	}
	t, problem := parseTarget(text)
	if problem != "" {
		return "" // Limit.Errors has it
	}
	if t.name == "" {
		for _, r := range p.Routes {
			if len(r.Match) == 1 && r.Match[0].Canonical() == t.pattern.Canonical() {
				return fmt.Sprintf("is the pattern of route %s: write %s %s", r.Name,
					strings.TrimSuffix(field, "[0]"), r.Name)
			}
		}
		return ""
	}
	best, near := 3, ""
	for _, r := range p.Routes {
		if r.Name == t.name {
			return ""
		}
		if d := distance(strings.ToLower(r.Name), strings.ToLower(t.name)); d < best {
			best, near = d, r.Name
		}
	}
	if near != "" {
		return fmt.Sprintf("is %s, and there is no such route: did you mean %s?", t.name, near)
	}
	return fmt.Sprintf("is %s, and there is no such route: define it, or write a pattern such as GET /%s",
		t.name, t.name)
}

// distance is the number of letters to change, add or remove (Levenshtein 1966).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := last
			if a[i] != b[j] {
				change++
			}
			last = row[j+1]
			row[j+1] = min(change, row[j]+1, last+1)
		}
	}
	return row[len(b)]
}

// paramProblem returns the problem of a limit whose calls do not all have its parameter.
func (p *Policy) paramProblem(l Limit) string {
	if l.Param == "" {
		return ""
	}
	patterns, name := p.patterns(l.On)
	for _, pattern := range patterns {
		if slices.Contains(pattern.Names(), l.Param) {
			continue
		}
		if name == "" {
			return fmt.Sprintf("counts each {%s} apart, and %s has no {%s} as one segment",
				l.Param, l.On, l.Param)
		}
		return fmt.Sprintf("counts each {%s} apart, and %s of route %s has no {%s} as one segment: "+
			"its calls would not be counted", l.Param, PatternText(pattern), name, l.Param)
	}
	return ""
}

// countErrors refuses limits of which one call could take more than MaxCounts counts. The
// list is a plan's, or an override's beside the plan's. What an override replaces goes on
// counting, so both count here.
func (p *Policy) countErrors(field string, plan, override []Limit) []FieldError {
	var list []where
	for _, l := range override {
		list = append(list, where{Limit: l, source: FromOverride})
	}
	for _, l := range plan {
		list = append(list, where{Limit: l, source: FromPlan})
	}
	for _, l := range p.Limits {
		list = append(list, where{Limit: l, source: FromPolicy})
	}
	witnesses := [][]route.Pattern{nil} // calls that match no pattern
	seen := map[string]bool{}
	for _, l := range list {
		patterns, _ := p.patterns(l.On)
		for _, pattern := range patterns {
			if key := pattern.Canonical(); !seen[key] {
				seen[key] = true
				witnesses = append(witnesses, []route.Pattern{pattern})
			}
		}
	}
	for _, witness := range witnesses {
		counts := map[string]bool{}
		for _, l := range list {
			if l.Lifted || l.On != "" && (witness == nil || !p.overlap(l.On, witness)) {
				continue
			}
			a := Applied{Limit: l.Limit, Source: l.source}
			a.Count = p.count(l.Limit, l.source, Caller{Plan: &Plan{ID: "plan"}})
			for _, key := range a.Counted(a.Count.Name(), limiter.Periods{}).StateKeys() {
				counts[key] = true
			}
		}
		if len(counts) > MaxCounts {
			calls := "a call"
			if witness != nil {
				calls = "a call of " + PatternText(witness[0])
			}
			return []FieldError{{field, fmt.Sprintf("lets %s take from %d counts, with those of the "+
				"policy: must be at most %d. Limits with the same each, unit, on and except share one",
				calls, len(counts), MaxCounts)}}
		}
	}
	return nil
}
