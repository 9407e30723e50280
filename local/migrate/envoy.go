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

// envoyDescriptor is an entry of the tree: a key, and a value or any.
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

const notEnvoy = "this is no configuration of Envoy's rate limit service"

// fromEnvoy converts the descriptors of a domain. Their keys are names of Envoy's own
// configuration. Known are those that Envoy's documents use.
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

// limitScope is what a limit applies to. Of Envoy it is a path from the root of the tree to
// a descriptor, of Kong a route.
type limitScope struct {
	was          []string // the descriptors from the root; nil of Kong
	method, path string
	address      bool   // each address has its own count
	caller       bool   // each caller has its own count
	value        string // of the caller; empty for any
	unknown      string // why the scope has no equal; empty if it has one
}

// with returns the scope with a descriptor appended.
func (p limitScope) with(d envoyDescriptor) limitScope {
	p.was = append(p.was[:len(p.was):len(p.was)], d.Key+map[bool]string{true: "=" + d.Value}[d.Value != ""])
	switch strings.ToLower(strings.TrimLeft(d.Key, ":")) {
	case "remote_address", "masked_remote_address":
		p.address = true
		if d.Value != "" {
			p.unknown = cmp.Or(p.unknown,
				"a limit of an address alone: list it as exempt or refused, or adopt it as a caller")
		}
	case "path", "route", "path_prefix":
		p.path = d.Value
		if !strings.HasPrefix(d.Value, "/") {
			p.unknown = cmp.Or(p.unknown, d.Key+" has no path")
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
		p.unknown = cmp.Or(p.unknown, "key "+d.Key+" says nothing that a call has here")
	}
	return p
}

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
	was := "descriptor " + strings.Join(at.was, " / ")
	for _, other := range l.Replaces {
		m.add(was+" replaces "+other.Name,
			noEqual+"all limits of a call hold; leave that one out where this one stands in for it")
	}
	if at.unknown != "" {
		m.add(was, noEqual+"%s", at.unknown)
		return
	}
	limit, err := unitLimit(l.RequestsPerUnit, l.Unit)
	if err != nil && !unlimited {
		m.add(was, noEqual+"%v", err)
		return
	}
	mode := policy.Mode("")
	if d.ShadowMode {
		mode = policy.Shadow
	}
	m.place(was, at, []limiter.Limit{limit}, unlimited, mode)
}

// unitLimit returns a fixed window aligned to the clock. Weeks, months and years are
// those of the calendar.
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
		return l, fmt.Errorf("unit %q has no window", clipped(unit, 20))
	}
	return l, nil
}

// place adds limits to plans, to addresses, or to a route rule. none stands for an
// unlimited descriptor, whose list is not used.
func (m *migration) place(
	was string, at limitScope, list []limiter.Limit, none bool, mode policy.Mode,
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
		m.add(was, "route rule of cost 0: its calls take from no limit")
	case none && at.caller:
		m.policy.Plans = append(m.policy.Plans, unlimited(m.callerPlan(at)))
		m.add(was, "plan %s, mode off", m.policy.Plans[len(m.policy.Plans)-1].Name)
	case none:
		m.add(was, "nothing: without a limit there is none")
	case routed:
		m.addToRule(was, at, limits, mode, text)
	case at.caller:
		name := m.callerPlan(at)
		m.policy.Plans = append(m.policy.Plans, policydoc.Plan{Name: name, Limits: limits, Mode: mode})
		m.add(was, "plan %s: %s", name, text)
	case at.address:
		m.policy.PerIP = withLimits(m.policy.PerIP, limits, mode)
		m.add(was, "%s for each address", text)
	default:
		m.policy.Global = withLimits(m.policy.Global, limits, mode)
		m.add(was, "%s of all calls", text)
	}
}

// addToRule adds limits to the route rule of a scope, and creates the rule if needed.
func (m *migration) addToRule(
	was string, at limitScope, limits []policydoc.Limit, mode policy.Mode, text string,
) {
	if at.caller && at.value != "" {
		m.add(was, noEqual+"a route rule is for the callers of all plans")
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
	to, whose := &m.policy.Routes[found], "all its callers together"
	switch {
	case at.caller:
		to.PerKey, whose = append(to.PerKey, limits...), "each caller"
	case at.address:
		to.PerIP, whose = append(to.PerIP, limits...), "each address"
	default:
		to.Shared = append(to.Shared, limits...)
	}
	m.add(was, "route rule %s: %s for %s", to.Name, text, whose)
	if to.Mode != mode {
		m.add("  "+cmp.Or(string(mode), "no shadow mode"), noEqual+"a route rule has one mode, here %s",
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

// callerPlan returns a name for the plan of a descriptor of callers.
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
