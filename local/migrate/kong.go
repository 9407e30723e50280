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
)

// kongFile is the part of a decK dump that has limits.
type kongFile struct {
	Services       []kongService  `yaml:"services"`
	Routes         []kongRoute    `yaml:"routes"`
	Consumers      []kongConsumer `yaml:"consumers"`
	ConsumerGroups []kongConsumer `yaml:"consumer_groups"`
	Plugins        []kongPlugin   `yaml:"plugins"`
}

type kongService struct {
	Name    string       `yaml:"name"`
	Routes  []kongRoute  `yaml:"routes"`
	Plugins []kongPlugin `yaml:"plugins"`
}

type kongRoute struct {
	Name    string       `yaml:"name"`
	Service kongName     `yaml:"service"`
	Paths   []string     `yaml:"paths"`
	Methods []string     `yaml:"methods"`
	Hosts   []string     `yaml:"hosts"`
	Plugins []kongPlugin `yaml:"plugins"`
}

// kongConsumer is a consumer or a consumer group.
type kongConsumer struct {
	Username string       `yaml:"username"`
	Name     string       `yaml:"name"`
	Plugins  []kongPlugin `yaml:"plugins"`
}

// kongName is a name, in YAML a string or an object with a name.
type kongName string

// UnmarshalYAML decodes both forms.
func (n *kongName) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*n = kongName(node.Value)
		return nil
	}
	var object struct {
		Name     string `yaml:"name"`
		Username string `yaml:"username"`
	}
	err := node.Decode(&object)
	*n = kongName(cmp.Or(object.Name, object.Username))
	return err
}

type kongPlugin struct {
	Name          string     `yaml:"name"`
	Enabled       *bool      `yaml:"enabled"`
	Config        kongConfig `yaml:"config"`
	Service       kongName   `yaml:"service"`
	Route         kongName   `yaml:"route"`
	Consumer      kongName   `yaml:"consumer"`
	ConsumerGroup kongName   `yaml:"consumer_group"`
}

type kongConfig struct {
	Second     int64   `yaml:"second"`
	Minute     int64   `yaml:"minute"`
	Hour       int64   `yaml:"hour"`
	Day        int64   `yaml:"day"`
	Month      int64   `yaml:"month"`
	Year       int64   `yaml:"year"`
	LimitBy    string  `yaml:"limit_by"`
	Identifier string  `yaml:"identifier"`
	Limit      []int64 `yaml:"limit"`
	WindowSize []int64 `yaml:"window_size"` // seconds
	WindowType string  `yaml:"window_type"`
}

const (
	rateLimiting         = "rate-limiting"
	rateLimitingAdvanced = "rate-limiting-advanced"
)

// fromKong converts the limits of a decK file.
func fromKong(text []byte) (*migration, error) {
	var file kongFile
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("not a file of decK: %w", err)
	}
	m := &migration{}
	for _, c := range file.ConsumerGroups {
		m.callers("consumer group", c.Name, c.Plugins)
	}
	for _, c := range file.Consumers {
		m.callers("consumer", c.Username, c.Plugins)
	}
	for _, s := range file.Services {
		m.kongRoutes("service "+s.Name, s.Routes, s.Plugins)
		for _, r := range s.Routes {
			m.kongRoutes("route "+r.Name, []kongRoute{r}, r.Plugins)
		}
	}
	for _, r := range file.Routes {
		m.kongRoutes("route "+r.Name, []kongRoute{r}, r.Plugins)
	}
	for _, p := range file.Plugins {
		m.kongGlobal(file, p)
	}
	if len(m.rows) == 0 {
		return nil, errors.New("the file has no plugin " + rateLimiting + " or " + rateLimitingAdvanced)
	}
	m.addDefaultPlan("consumers")
	return m, nil
}

// kongLimits returns the limits of a plugin. ok is false for another or disabled plugin,
// and if no limit has an equivalent.
func (m *migration) kongLimits(source string, p kongPlugin) (limits []limiter.Limit, ok bool) {
	c := p.Config
	switch {
	case p.Enabled != nil && !*p.Enabled:
		return nil, false
	case p.Name == rateLimiting:
		for _, u := range []struct {
			unit     string
			requests int64
		}{{"second", c.Second}, {"minute", c.Minute}, {"hour", c.Hour}, {"day", c.Day}, {"month", c.Month},
			{"year", c.Year}} {
			if u.requests == 0 {
				continue
			}
			if l, err := unitLimit(u.requests, u.unit); err == nil {
				limits = append(limits, l)
			} else {
				m.add(source, noEquivalent+"%v", err)
			}
		}
	case p.Name == rateLimitingAdvanced:
		for i := range min(len(c.Limit), len(c.WindowSize)) {
			l := limiter.Limit{Requests: c.Limit[i], Window: time.Duration(c.WindowSize[i]) * time.Second}
			if c.WindowType == "fixed" {
				l.Algorithm = limiter.FixedWindow
			}
			if errs := l.Errors(); len(errs) > 0 {
				m.add(source, noEquivalent+"%v", errs[0])
				continue
			}
			limits = append(limits, l)
		}
	}
	return limits, len(limits) > 0
}

// by returns what has its own count, such as consumer or ip.
func (p kongPlugin) by() string { return cmp.Or(p.Config.LimitBy, p.Config.Identifier, "consumer") }

// callers creates a plan with the limits of a consumer or a group.
func (m *migration) callers(kind, name string, plugins []kongPlugin) {
	for _, p := range plugins {
		source := kind + " " + name
		if limits, ok := m.kongLimits(source, p); ok {
			plan := policydoc.Plan{Name: m.planName(name, kind), Limits: policydoc.LimitsOf(limits)}
			m.policy.Plans = append(m.policy.Plans, plan)
			m.add(source, "plan %s: %s", plan.Name, policydoc.LimitsText(limits))
		}
	}
}

// kongRoutes creates route rules with the limits of a service or a route.
func (m *migration) kongRoutes(source string, routes []kongRoute, plugins []kongPlugin) {
	for _, p := range plugins {
		limits, ok := m.kongLimits(source, p)
		if !ok {
			continue
		}
		rules := 0
		for _, r := range routes {
			for _, at := range m.kongPatterns(source, r) {
				switch p.by() {
				case "consumer", "credential":
					at.caller = true
				case "ip":
					at.address = true
				case "service":
				default:
					m.add(source, noEquivalent+"limit_by %s", clipped(p.by(), 40))
					continue
				}
				rules++
				m.addToRule(source, at, policydoc.LimitsOf(limits), "", policydoc.LimitsText(limits))
			}
		}
		if rules > 1 {
			m.add(source, noEquivalent+"its %d rules count separately; Kong counts them together", rules)
		}
	}
}

// kongPatterns returns the patterns of a route: each path itself and all paths below it.
func (m *migration) kongPatterns(source string, r kongRoute) (all []limitScope) {
	if len(r.Hosts) > 0 {
		m.add(source+", hosts of route "+r.Name, noEquivalent+"a pattern has no host, but an API and a stage")
	}
	methods, paths := r.Methods, r.Paths
	if len(methods) == 0 {
		methods = []string{"ANY"}
	}
	if len(paths) == 0 {
		paths = []string{"/"}
	}
	for _, path := range paths {
		if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "*{}") {
			m.add(source+", path "+clipped(path, policyPath),
				noEquivalent+"a pattern has no regular expressions")
			continue
		}
		path = strings.TrimSuffix(path, "/")
		for _, method := range methods {
			if path != "" {
				all = append(all, limitScope{method: method, path: path})
			}
			all = append(all, limitScope{method: method, path: path + "/*"})
		}
	}
	return all
}

// policyPath is the maximum length of a path in the table, in characters.
const policyPath = 60

// kongGlobal adds a plugin from the file's top-level list. It names its service, route,
// consumer or consumer group, or applies to all calls.
func (m *migration) kongGlobal(file kongFile, p kongPlugin) {
	switch {
	case p.ConsumerGroup != "":
		m.callers("consumer group", string(p.ConsumerGroup), []kongPlugin{p})
		return
	case p.Consumer != "":
		m.callers("consumer", string(p.Consumer), []kongPlugin{p})
		return
	case p.Service != "" || p.Route != "":
		m.kongRoutes("plugin of "+string(p.Service+p.Route), file.routesOf(p), []kongPlugin{p})
		return
	}
	const source = "plugin for all calls"
	limits, ok := m.kongLimits(source, p)
	if !ok {
		return
	}
	m.place(source, limitScope{
		caller:  p.by() == "consumer" || p.by() == "credential",
		address: p.by() == "ip",
	}, limits, false, "")
}

// routesOf returns the routes of the plugin's service, or the plugin's route.
func (f kongFile) routesOf(p kongPlugin) (all []kongRoute) {
	for _, s := range f.Services {
		for _, r := range s.Routes {
			if s.Name == string(p.Service) || r.Name != "" && r.Name == string(p.Route) {
				all = append(all, r)
			}
		}
	}
	for _, r := range f.Routes {
		if r.Service != "" && r.Service == p.Service || r.Name != "" && r.Name == string(p.Route) {
			all = append(all, r)
		}
	}
	return all
}
