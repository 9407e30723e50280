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
	"tidegate/internal/limiter/calendar"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// fromUsagePlans converts usage plans and their keys. shadow lets all limits deny nothing.
func fromUsagePlans(e *export, shadow bool) *migration {
	m := &migration{shadow: shadow}
	plans := map[string]policydoc.Plan{} // by the usage plan's id
	for _, p := range e.plans {
		if len(p.APIStages) == 0 {
			m.add(p.String(), noEquivalent+"without an API stage it opens nothing: not imported")
			continue
		}
		plans[p.ID] = m.addPlan(p)
	}
	m.addKeys(e, plans)
	for _, p := range e.unlisted() {
		m.add("keys of "+p.String(), noEquivalent+"the export has no list of them: aws apigateway "+
			"get-usage-plan-keys --usage-plan-id %s", p.ID)
	}
	for _, field := range slices.Sorted(maps.Keys(e.others)) {
		m.add("field "+field, noEquivalent+"%s items have it", limits.Number(int64(e.others[field])))
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
	plan := policydoc.Plan{Name: name, Limits: policydoc.LimitsOf(m.planLimits(p)), Opens: m.opens(p)}
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

// planLimits returns the throttle, the quota and the throttles of methods of a plan.
func (m *migration) planLimits(p usagePlan) (list []limits.Limit) {
	add := func(source string, l limits.Limit, equal bool) {
		l.Shadow = m.shadow
		list = append(list, l)
		if equal {
			m.add(source, "%s", l)
			return
		}
		m.add(source, noEquivalent+"the nearest limit is %s", l)
	}
	const blocked = noEquivalent + "it allows no call: the plan's keys are revoked"
	if p.Throttle != nil {
		source := "  " + throttleText(*p.Throttle)
		if l, ok := bucketOf(*p.Throttle); ok {
			add(source, l, isNear(*p.Throttle, l))
		} else {
			m.add(source, blocked)
		}
	}
	if p.Quota != nil {
		source := fmt.Sprintf("  quota %d a %s", p.Quota.Limit, strings.ToLower(p.Quota.Period))
		if l, ok := quotaLimit(*p.Quota); ok {
			add(source, l, l.Requests == p.Quota.Limit)
		} else {
			m.add(source, blocked)
		}
		if p.Quota.Offset != 0 {
			m.add(fmt.Sprintf("  offset %d", p.Quota.Offset),
				noEquivalent+"it applies only to the plan's first period")
		}
	}
	for _, t := range m.methodThrottles(p) {
		source := "  method " + t.on + ", " + throttleText(t.throttle)
		l, ok := bucketOf(t.throttle)
		l.On = t.on
		switch {
		case !ok:
			m.add(source, noEquivalent+"it allows no call")
		case len(list) == limits.MaxPlanLimits:
			m.add(source, noEquivalent+"a plan has at most %d limits", limits.MaxPlanLimits)
		case len(l.Errors()) > 0:
			m.add(source, noEquivalent+"%s", l.Errors()[0])
		default:
			add(source, l, isNear(t.throttle, l))
		}
	}
	if len(list) == 0 && p.Throttle == nil && p.Quota == nil {
		m.add("  no throttle, no quota", "no limits")
	}
	return list
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
func bucketOf(t throttle) (limits.Limit, bool) {
	if t.RateLimit <= 0 || t.BurstLimit <= 0 {
		return limits.Limit{}, false
	}
	burst := min(t.BurstLimit, limits.MaxRequests)
	// A tenth of a nanosecond is subtracted, so that a whole quotient is not rounded up.
	ms := math.Ceil(float64(burst)/t.RateLimit*1000 - 1e-7)
	window := time.Duration(min(max(ms, 1), float64(limits.MaxWindow.Milliseconds()))) * time.Millisecond
	return limits.Limit{Requests: burst, Window: window, Algorithm: limiter.TokenBucket}, true
}

// isNear reports whether a bucket has the burst of a throttle, and its rate to one percent.
func isNear(t throttle, l limits.Limit) bool {
	rate := float64(l.Requests) / l.Window.Seconds()
	return l.Requests == t.BurstLimit && math.Abs(rate/t.RateLimit-1) < 0.01
}

// periods has the calendar period of a quota's, and how many a year has.
var periods = map[string]struct {
	calendar calendar.Period
	perYear  int64
}{"DAY": {calendar.Day, 365}, "WEEK": {calendar.Week, 52}, "MONTH": {calendar.Month, 12}}

// quotaLimit returns a quota as a limit of a calendar period, which begins at the same
// instant for all callers. A week begins on Monday. AWS does not document the first day
// of its weeks; its older SDKs say Sunday.
func quotaLimit(q quota) (limits.Limit, bool) {
	return limits.Limit{Requests: min(q.Limit, limits.MaxRequests), Algorithm: limiter.FixedWindow,
		Calendar: periods[q.Period].calendar}, q.Limit > 0
}

// opens returns patterns that open the stages of a usage plan, up to policy.MaxOpens. A
// usage plan must have a stage: a plan with an empty list opens all routes.
func (m *migration) opens(p usagePlan) []policydoc.Pattern {
	var opened []route.Pattern
	known := map[route.Pattern]bool{}
	for _, s := range p.APIStages {
		pattern := route.Pattern{API: s.APIID, Stage: s.Stage}
		if known[pattern] {
			continue
		}
		known[pattern] = true
		if opened = append(opened, pattern); len(opened) <= policy.MaxOpens {
			m.add("  API stage "+s.String(), "opens %s", pattern)
		} else {
			m.add("  API stage "+s.String(),
				noEquivalent+"a plan opens at most %d stages: this stage is closed", policy.MaxOpens)
		}
	}
	return policydoc.PatternsOf(opened[:min(len(opened), policy.MaxOpens)])
}

// methodThrottle is the throttle of one method: on is the pattern of its calls.
type methodThrottle struct {
	on       string // "a1orders/prod GET /pets/{id}"
	throttle throttle
}

// methodThrottles returns the throttles of a plan's methods, ordered by pattern.
func (m *migration) methodThrottles(p usagePlan) []methodThrottle {
	found := map[string]throttle{}
	for _, s := range p.APIStages {
		for path, limit := range s.Throttle {
			at := strings.LastIndexByte(path, '/')
			if at < 0 {
				m.add("  method "+s.String()+" "+path, noEquivalent+"it is not a path and a method")
				continue
			}
			pattern := route.Pattern{API: s.APIID, Stage: s.Stage, Path: cmp.Or(path[:at], "/"),
				Method: cmp.Or(strings.Replace(path[at+1:], "*", "ANY", 1), "ANY")}
			on := limits.PatternText(pattern)
			found[on] = looser(found[on], limit)
		}
	}
	all := make([]methodThrottle, 0, len(found))
	for _, on := range slices.Sorted(maps.Keys(found)) {
		all = append(all, methodThrottle{on, found[on]})
	}
	return all
}

// pairs returns tags as name=value.
func pairs(tags map[string]string) []string {
	all := make([]string, 0, len(tags))
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, name+"="+tags[name])
	}
	return all
}
