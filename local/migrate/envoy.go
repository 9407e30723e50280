package main

import (
	"cmp"
	"errors"
	"fmt"
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
		m.descriptor(envoyPath{}, d)
	}
	if len(m.policy.Plans) == 0 {
		m.policy.Plans = append(m.policy.Plans, unlimited("default"))
		m.add("callers without a limit of their own", "plan default, mode off")
	}
	return m, nil
}

// envoyPath is the path from the root of the tree to a descriptor.
type envoyPath struct {
	was          []string
	method, path string
	address      bool // each address has its own count
	caller       bool // each caller has its own count
	value        string
	unknown      string // a key that nothing here stands for
}

// with returns the path with a descriptor appended.
func (p envoyPath) with(d envoyDescriptor) envoyPath {
	p.was = append(p.was[:len(p.was):len(p.was)], d.Key+map[bool]string{true: "=" + d.Value}[d.Value != ""])
	switch strings.ToLower(strings.TrimLeft(d.Key, ":")) {
	case "remote_address", "masked_remote_address":
		p.address, p.unknown = true, cmp.Or(p.unknown, valueOf(d, "an address"))
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

// valueOf returns why a descriptor with a value has no equal.
func valueOf(d envoyDescriptor, what string) string {
	if d.Value == "" {
		return ""
	}
	return "a limit of " + what + " alone: list it as exempt or refused, or adopt it as a caller"
}

func (m *migration) descriptor(above envoyPath, d envoyDescriptor) {
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

// envoyLimit adds the limit of a descriptor at the place of its path.
func (m *migration) envoyLimit(at envoyPath, d envoyDescriptor) {
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

// place adds limits to plans, to addresses, or to a route rule.
func (m *migration) place(
	was string, at envoyPath, list []limiter.Limit, none bool, mode policy.Mode,
) {
	limits, text := policydoc.LimitsOf(list), policydoc.LimitsText(list)
	if mode != "" {
		text += ", mode " + string(mode)
	}
	switch routed := at.path != "" || at.method != ""; {
	case none && routed:
		m.policy.Routes = append(m.policy.Routes, at.rule(0))
		m.add(was, "route rule of cost 0: its calls take from no limit")
	case none && at.caller:
		m.policy.Plans = append(m.policy.Plans, unlimited(m.planName(at)))
		m.add(was, "plan %s, mode off", m.policy.Plans[len(m.policy.Plans)-1].Name)
	case none:
		m.add(was, "nothing: without a limit there is none")
	case routed:
		m.routed(was, at, limits, mode, text)
	case at.caller:
		name := m.planName(at)
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

func (m *migration) routed(
	was string, at envoyPath, limits []policydoc.Limit, mode policy.Mode, text string,
) {
	if at.caller && at.value != "" {
		m.add(was, noEqual+"a route rule is for the callers of all plans")
		return
	}
	rule, found := at.rule(1), -1
	for i, other := range m.policy.Routes {
		if other.Pattern == rule.Pattern {
			found = i
		}
	}
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

// rule returns the route rule of a path.
func (p envoyPath) rule(cost int64) policydoc.Rule {
	pattern := policydoc.Pattern{Method: p.method, Path: p.path}
	name := clipped(strings.TrimSpace(p.method+" "+p.path), policy.MaxNameLen)
	r := policydoc.Rule{Name: name, Pattern: pattern}
	if cost == 0 {
		r.Cost = &cost
	}
	return r
}

// planName returns a name for the plan of a descriptor of callers.
func (m *migration) planName(at envoyPath) string {
	taken := map[string]bool{}
	for _, p := range m.policy.Plans {
		taken[p.Name] = true
	}
	return uniqueName(taken, cmp.Or(at.value, "default"), fmt.Sprint(len(m.policy.Plans)+1))
}

func withLimits(s *policydoc.Scope, limits []policydoc.Limit, mode policy.Mode) *policydoc.Scope {
	if s == nil {
		s = &policydoc.Scope{Mode: mode}
	}
	s.Limits = append(s.Limits, limits...)
	return s
}
