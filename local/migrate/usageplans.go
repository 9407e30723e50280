package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// fromUsagePlans converts usage plans and their keys. mode is that of the plans and rules;
// empty to enforce their limits.
func fromUsagePlans(e *export, mode policy.Mode) *migration {
	m := &migration{mode: mode}
	plans := map[string]policydoc.Plan{} // by the usage plan's id
	for _, p := range e.plans {
		if len(p.APIStages) == 0 {
			m.add(p.String(), noEquivalent+"without an API stage it opens nothing: not imported")
			continue
		}
		plans[p.ID] = m.addPlan(p)
	}
	m.addRules(e.plans)
	m.addKeys(e, plans)
	for _, p := range e.unlisted() {
		m.add("keys of "+p.String(), noEquivalent+"the export has no list of them: aws apigateway "+
			"get-usage-plan-keys --usage-plan-id %s", p.ID)
	}
	for _, field := range slices.Sorted(maps.Keys(e.others)) {
		m.add("field "+field, noEquivalent+"%s items have it", policydoc.Number(int64(e.others[field])))
	}
	for _, file := range e.notRead {
		m.add("file "+file, noEquivalent+"not read: its name does not end in .json, .yaml, .yml or .csv")
	}
	return m
}

// addPlan adds a usage plan to the policy.
func (m *migration) addPlan(p usagePlan) policydoc.Plan {
	name := m.planName(p.Name, p.ID)
	m.add(p.String(), "plan %s", name)
	m.addCut(p.Name, policy.MaxNameLen)
	limits := m.planLimits(p)
	plan := policydoc.Plan{Name: name, Limits: policydoc.LimitsOf(limits), Mode: m.mode}
	if len(limits) == 0 {
		plan = unlimited(name)
		m.add("  no throttle, no quota", "%s, which denies nothing", policydoc.LimitText(most))
	}
	plan.Allow = m.allow(p)
	for _, lost := range []struct{ field, text string }{
		{"description", p.Description}, {"tags", strings.Join(pairs(p.Tags), ", ")},
	} {
		if lost.text != "" {
			m.add("  "+lost.field, noEquivalent+"plans do not have this field")
		}
	}
	if p.ProductCode != "" {
		m.add("  product code",
			noEquivalent+"keep this usage plan, without throttle and quota, for AWS Marketplace")
	}
	m.policy.Plans = append(m.policy.Plans, plan)
	return plan
}

// most is the limit of a plan without one, since every plan must have a limit. It denies
// nothing.
var most = limiter.Limit{Requests: limiter.MaxRequests, Window: 24 * time.Hour,
	Algorithm: limiter.FixedWindow, Shadow: true}

func unlimited(name string) policydoc.Plan {
	return policydoc.Plan{Name: name, Limits: policydoc.LimitsOf([]limiter.Limit{most})}
}

// planLimits returns the throttle and the quota of a plan.
func (m *migration) planLimits(p usagePlan) (limits []limiter.Limit) {
	if p.Throttle != nil {
		source := "  " + throttleText(*p.Throttle)
		if l, ok := bucketOf(*p.Throttle); ok {
			limits = append(limits, l)
			m.addLimit(source, l, isNear(*p.Throttle, l), "")
		} else {
			m.add(source, noEquivalent+"it allows no call: the plan's keys are revoked")
		}
	}
	if p.Quota != nil {
		source := fmt.Sprintf("  quota %d a %s", p.Quota.Limit, strings.ToLower(p.Quota.Period))
		l, ok := quotaLimit(*p.Quota)
		if !ok {
			m.add(source, noEquivalent+"it allows no call: the plan's keys are revoked")
			return limits
		}
		limits = append(limits, l)
		m.addLimit(source, l, l.Requests == p.Quota.Limit, "")
		if p.Quota.Offset != 0 {
			m.add(fmt.Sprintf("  offset %d", p.Quota.Offset),
				noEquivalent+"it applies only to the plan's first period")
		}
	}
	return limits
}

// addLimit adds the row of a limit. equal is false if the source allows another number of
// calls. suffix says whom the limit is for.
func (m *migration) addLimit(source string, l limiter.Limit, equal bool, suffix string) {
	if equal {
		m.add(source, "%s%s", policydoc.LimitText(l), suffix)
		return
	}
	m.add(source, noEquivalent+"the nearest limit is %s%s", policydoc.LimitText(l), suffix)
}

func throttleText(t throttle) string {
	return fmt.Sprintf("rate %.6g a second, burst %d", t.RateLimit, t.BurstLimit)
}

// blocked reports whether the plan allows no call.
func (p usagePlan) blocked() bool {
	return p.Throttle != nil && (p.Throttle.RateLimit <= 0 || p.Throttle.BurstLimit <= 0) ||
		p.Quota != nil && p.Quota.Limit <= 0
}

// bucketOf returns the token bucket of a burst that refills at a rate. Its window is
// rounded up to a millisecond, so it never admits more than the throttle.
func bucketOf(t throttle) (limiter.Limit, bool) {
	if t.RateLimit <= 0 || t.BurstLimit <= 0 {
		return limiter.Limit{}, false
	}
	burst := min(t.BurstLimit, limiter.MaxRequests)
	// A tenth of a nanosecond is subtracted, so that a whole quotient is not rounded up.
	ms := math.Ceil(float64(burst)/t.RateLimit*1000 - 1e-7)
	window := time.Duration(min(max(ms, 1), float64(limiter.MaxWindow.Milliseconds()))) * time.Millisecond
	return limiter.Limit{Requests: burst, Window: window, Algorithm: limiter.TokenBucket}, true
}

// isNear reports whether a bucket has the burst of a throttle, and its rate to one percent.
func isNear(t throttle, l limiter.Limit) bool {
	rate := float64(l.Requests) / l.Window.Seconds()
	return l.Requests == t.BurstLimit && math.Abs(rate/t.RateLimit-1) < 0.01
}

// periods has the calendar period of a quota's, and how many a year has.
var periods = map[string]struct {
	calendar limiter.Calendar
	perYear  int64
}{"DAY": {limiter.Day, 365}, "WEEK": {limiter.Week, 52}, "MONTH": {limiter.Month, 12}}

// quotaLimit returns a quota as a limit of a calendar period, which begins at the same
// instant for all callers. A week begins on Monday. AWS does not document the first day
// of its weeks; its older SDKs say Sunday.
func quotaLimit(q quota) (limiter.Limit, bool) {
	return limiter.Limit{Requests: min(q.Limit, limiter.MaxRequests), Algorithm: limiter.FixedWindow,
		Calendar: periods[q.Period].calendar}, q.Limit > 0
}

// allow returns patterns that open the stages of a usage plan, up to policy.MaxAllow. A
// usage plan must have a stage: a plan with an empty list opens all routes.
func (m *migration) allow(p usagePlan) []policydoc.Pattern {
	var opened []route.Pattern
	known := map[route.Pattern]bool{}
	for _, s := range p.APIStages {
		pattern := route.Pattern{API: s.APIID, Stage: s.Stage}
		if known[pattern] {
			continue
		}
		known[pattern] = true
		if opened = append(opened, pattern); len(opened) <= policy.MaxAllow {
			m.add("  API stage "+s.String(), "allow %s", pattern)
		} else {
			m.add("  API stage "+s.String(),
				noEquivalent+"a plan opens at most %d stages: this stage is closed", policy.MaxAllow)
		}
	}
	return policydoc.PatternsOf(opened[:min(len(opened), policy.MaxAllow)])
}

// methodThrottle is a throttle of one method in one plan.
type methodThrottle struct {
	stage  apiStage
	method string // "GET /pets/{id}"
	limit  throttle
}

// addRules creates route rules from the throttles of single methods. A route rule applies
// to the keys of all plans, so all plans of the stage must have the same throttle.
func (m *migration) addRules(plans []usagePlan) {
	stages := map[string]int{} // number of plans by stage
	found := map[string][]methodThrottle{}
	for _, p := range plans {
		for _, s := range p.APIStages {
			stages[s.String()]++
			for path, limit := range s.Throttle {
				at := strings.LastIndexByte(path, '/')
				if at < 0 {
					m.add("method "+s.String()+" "+path, noEquivalent+"it is not a path and a method")
					continue
				}
				verb := cmp.Or(strings.Replace(path[at+1:], "*", "ANY", 1), "ANY")
				method := verb + " " + cmp.Or(path[:at], "/")
				name := s.String() + " " + method
				found[name] = append(found[name], methodThrottle{s, method, limit})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		m.addRule(name, found[name], stages[found[name][0].stage.String()])
	}
}

// addRule creates the route rule of one method. all has the throttle of each plan that
// has one, and plans is the number of plans that open the stage.
func (m *migration) addRule(name string, all []methodThrottle, plans int) {
	first := all[0]
	source := "method " + name + ", " + throttleText(first.limit)
	same := len(all) == plans && !slices.ContainsFunc(all, func(t methodThrottle) bool {
		return t.limit != first.limit
	})
	l, ok := bucketOf(first.limit)
	switch {
	case !same:
		m.add("method "+name,
			noEquivalent+"%d of the stage's %d plans throttle it, or with different rates; "+
				"a route rule is for all plans", len(all), plans)
	case !ok:
		m.add(source, noEquivalent+"it allows no call")
	default:
		method, path, _ := strings.Cut(first.method, " ")
		rule := policydoc.Rule{
			Name: m.unique(name, ""),
			Mode: m.mode,
			Pattern: policydoc.Pattern{API: first.stage.APIID, Stage: first.stage.Stage, Method: method,
				Path: path},
			PerKey: policydoc.LimitsOf([]limiter.Limit{l}),
		}
		m.policy.Routes = append(m.policy.Routes, rule)
		m.addLimit(source, l, isNear(first.limit, l), " for each key, by a route rule")
	}
}

// pairs returns tags as name=value.
func pairs(tags map[string]string) []string {
	all := make([]string, 0, len(tags))
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, name+"="+tags[name])
	}
	return all
}
