package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// envoyDomain is a configuration file of Envoy's rate limit service.
type envoyDomain struct {
	Domain      string            `yaml:"domain"`
	Descriptors []envoyDescriptor `yaml:"descriptors"`
}

// envoyDescriptor is a node of the descriptor tree: a key, and a value or any value.
type envoyDescriptor struct {
	Key         string            `yaml:"key"`
	Value       string            `yaml:"value"`
	RateLimit   *envoyLimit       `yaml:"rate_limit"`
	ShadowMode  bool              `yaml:"shadow_mode"`
	Descriptors []envoyDescriptor `yaml:"descriptors"`
}

type envoyLimit struct {
	Name            string                  `yaml:"name"`
	Unit            string                  `yaml:"unit"`
	RequestsPerUnit int64                   `yaml:"requests_per_unit"`
	Unlimited       bool                    `yaml:"unlimited"`
	Replaces        []struct{ Name string } `yaml:"replaces"`
}

const notEnvoy = "not a configuration of Envoy's rate limit service"

// fromEnvoy converts the descriptors of a domain. The keys of descriptors are chosen in
// Envoy's own configuration; fromEnvoy knows the keys in Envoy's documents.
func fromEnvoy(text []byte) (*migration, error) {
	var domain envoyDomain
	if err := yaml.Unmarshal(text, &domain); err != nil {
		return nil, fmt.Errorf("%s: %w", notEnvoy, err)
	}
	if len(domain.Descriptors) == 0 {
		return nil, errors.New(notEnvoy + ": it has no descriptors")
	}
	m := &migration{}
	for _, d := range domain.Descriptors {
		m.descriptor(limitScope{}, d)
	}
	m.addDefaultPlan("callers")
	return m, nil
}

// limitScope is the calls to which a limit applies: in Envoy's configuration a path from
// the root of the tree to a descriptor, in Kong's a route.
type limitScope struct {
	descriptors  []string // from the root of the tree; nil for Kong
	method, path string
	address      bool   // each address has its own count
	caller       bool   // each caller has its own count
	value        string // the caller; empty for any caller
	unknown      string // why the scope has no equivalent; empty if it has one
}

// with returns the scope with a descriptor appended.
func (p limitScope) with(d envoyDescriptor) limitScope {
	text := d.Key
	if d.Value != "" {
		text += "=" + d.Value
	}
	p.descriptors = append(slices.Clip(p.descriptors), text)
	switch strings.ToLower(strings.TrimLeft(d.Key, ":")) {
	case "remote_address", "masked_remote_address":
		p.address = true
		if d.Value != "" {
			p.unknown = cmp.Or(p.unknown,
				"a limit of a single address: list it as exempt or refused, or register it as a caller")
		}
	case "path", "route", "path_prefix":
		p.path = d.Value
		if !strings.HasPrefix(d.Value, "/") {
			p.unknown = cmp.Or(p.unknown, d.Key+" is not a path that begins with /")
		}
	case "method":
		p.method = strings.ToUpper(d.Value)
		if d.Value == "" {
			p.unknown = cmp.Or(p.unknown, "each method has its own count")
		}
	case "x-api-key", "api_key", "client_id", "user_id", "user", "authorization", "key":
		p.caller, p.value = true, d.Value
	case "generic_key":
	default:
		p.unknown = cmp.Or(p.unknown, "calls have nothing like key "+d.Key)
	}
	return p
}

// descriptor adds the limits of a descriptor and of those below it. above is the scope of
// its parent.
func (m *migration) descriptor(above limitScope, d envoyDescriptor) {
	at := above.with(d)
	if d.RateLimit != nil {
		m.envoyLimit(at, d)
	}
	for _, below := range d.Descriptors {
		m.descriptor(at, below)
	}
}

var units = map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour,
	"day": 24 * time.Hour}

// envoyLimit adds the limit of a descriptor.
func (m *migration) envoyLimit(at limitScope, d envoyDescriptor) {
	l, unlimited := *d.RateLimit, d.RateLimit.Unlimited
	source := "descriptor " + strings.Join(at.descriptors, " / ")
	for _, other := range l.Replaces {
		m.add(source+" replaces "+other.Name,
			noEquivalent+"all limits of a call apply; remove the replaced limit where this one applies")
	}
	if at.unknown != "" {
		m.add(source, noEquivalent+"%s", at.unknown)
		return
	}
	limit, err := unitLimit(l.RequestsPerUnit, l.Unit)
	if err != nil && !unlimited {
		m.add(source, noEquivalent+"%v", err)
		return
	}
	mode := policy.Mode("")
	if d.ShadowMode {
		mode = policy.Shadow
	}
	m.place(source, at, []limiter.Limit{limit}, unlimited, mode)
}

// unitLimit returns a fixed window aligned to the clock. Weeks, months and years are
// calendar periods.
func unitLimit(requests int64, unit string) (limiter.Limit, error) {
	l := limiter.Limit{Requests: requests, Algorithm: limiter.FixedWindow}
	if requests < 1 || requests > limiter.MaxRequests {
		return l, fmt.Errorf("%d requests: a limit has 1 to 1,000,000,000", requests)
	}
	switch window, known := units[strings.ToLower(unit)]; {
	case known:
		l.Window = window
	case strings.EqualFold(unit, "week"):
		l.Calendar = limiter.Week
	case strings.EqualFold(unit, "month"):
		l.Calendar = limiter.Month
	case strings.EqualFold(unit, "year"):
		l.Calendar = limiter.Year
	default:
		return l, fmt.Errorf("unknown unit %q", clipped(unit, 20))
	}
	return l, nil
}

// place adds limits to a plan, to addresses, to all calls or to a route rule. If none is
// true, the descriptor is unlimited, and list is not used.
func (m *migration) place(
	source string, at limitScope, list []limiter.Limit, none bool, mode policy.Mode,
) {
	limits, text := policydoc.LimitsOf(list), policydoc.LimitsText(list)
	if mode != "" {
		text += ", mode " + string(mode)
	}
	switch routed := at.path != "" || at.method != ""; {
	case none && routed:
		rule := at.rule()
		rule.Cost = new(int64)
		m.policy.Routes = append(m.policy.Routes, rule)
		m.add(source, "route rule with cost 0: its calls take from no limit")
	case none && at.caller:
		m.policy.Plans = append(m.policy.Plans, unlimited(m.callerPlan(at)))
		m.add(source, "plan %s, mode off", m.policy.Plans[len(m.policy.Plans)-1].Name)
	case none:
		m.add(source, "nothing: calls without a limit are not limited")
	case routed:
		m.addToRule(source, at, limits, mode, text)
	case at.caller:
		name := m.callerPlan(at)
		m.policy.Plans = append(m.policy.Plans, policydoc.Plan{Name: name, Limits: limits, Mode: mode})
		m.add(source, "plan %s: %s", name, text)
	case at.address:
		m.policy.PerIP = withLimits(m.policy.PerIP, limits, mode)
		m.add(source, "%s for each address", text)
	default:
		m.policy.Global = withLimits(m.policy.Global, limits, mode)
		m.add(source, "%s of all calls", text)
	}
}

// addToRule adds limits to the route rule of a scope, and creates the rule if needed.
func (m *migration) addToRule(
	source string, at limitScope, limits []policydoc.Limit, mode policy.Mode, text string,
) {
	if at.caller && at.value != "" {
		m.add(source, noEquivalent+"a route rule applies to the callers of all plans")
		return
	}
	rule := at.rule()
	found := slices.IndexFunc(m.policy.Routes, func(r policydoc.Rule) bool {
		return r.Pattern == rule.Pattern
	})
	if found < 0 {
		rule.Mode = mode
		m.policy.Routes, found = append(m.policy.Routes, rule), len(m.policy.Routes)
	}
	to, whose := &m.policy.Routes[found], "all callers together"
	switch {
	case at.caller:
		to.PerKey, whose = append(to.PerKey, limits...), "each caller"
	case at.address:
		to.PerIP, whose = append(to.PerIP, limits...), "each address"
	default:
		to.Shared = append(to.Shared, limits...)
	}
	m.add(source, "route rule %s: %s for %s", to.Name, text, whose)
	if to.Mode != mode {
		m.add("  "+cmp.Or(string(mode), "no shadow mode"), noEquivalent+"a route rule has one mode, here %s",
			policy.OrEnforce(to.Mode))
	}
}

// rule returns an empty route rule for the scope's method and path.
func (p limitScope) rule() policydoc.Rule {
	return policydoc.Rule{
		Name:    clipped(strings.TrimSpace(p.method+" "+p.path), policy.MaxNameLen),
		Pattern: policydoc.Pattern{Method: p.method, Path: p.path},
	}
}

// callerPlan returns a unique name for the plan of a scope with a caller.
func (m *migration) callerPlan(at limitScope) string {
	return m.planName(cmp.Or(at.value, "default"), fmt.Sprint(len(m.policy.Plans)+1))
}

func withLimits(s *policydoc.Scope, limits []policydoc.Limit, mode policy.Mode) *policydoc.Scope {
	if s == nil {
		s = &policydoc.Scope{Mode: mode}
	}
	s.Limits = append(s.Limits, limits...)
	return s
}
