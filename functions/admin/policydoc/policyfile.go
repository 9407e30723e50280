// Package policydoc is the policy set as a document that people keep beside their code:
// YAML with limits in words, "100 per 10 seconds". It writes a set, reads one back and
// says what would change. Pages, files and differences use the same words for a limit.
package policydoc

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// MaxBytes bounds a file. The largest Set there may be takes half of it.
const MaxBytes = 2 << 20

// File is a Set as it was written down.
type File struct {
	// Version is the one that the file was made of; 0 when it does not say.
	Version int64

	document document
	lines    map[string]int // of each field, by its path
}

// document is the file's form.
type document struct {
	Version     int64     `yaml:"version,omitempty"`
	Plans       []plan    `yaml:"plans,omitempty"`
	Routes      []rule    `yaml:"routes,omitempty"`
	PerIP       *scope    `yaml:"perIP,omitempty"`
	Global      *scope    `yaml:"global,omitempty"`
	Deny        []network `yaml:"deny,omitempty"`
	Allow       []network `yaml:"allow,omitempty"`
	Exempt      []network `yaml:"exempt,omitempty"`
	TokenPlan   string    `yaml:"tokenPlan,omitempty"`
	AddressPlan string    `yaml:"addressPlan,omitempty"`
	Bans        *bans     `yaml:"bans,omitempty"`
}

type plan struct {
	Name      string          `yaml:"name"`
	Was       string          `yaml:"was,omitempty"` // its name before
	Limits    []limit         `yaml:"limits"`
	Mode      policy.Mode     `yaml:"mode,omitempty"`
	Degraded  policy.Degraded `yaml:"degraded,omitempty"`
	Share     int             `yaml:"share,omitempty"`
	Candidate []limit         `yaml:"candidate,omitempty"`
}

type rule struct {
	Name      string      `yaml:"name"`
	Pattern   pattern     `yaml:"pattern"`
	Cost      *int64      `yaml:"cost,omitempty"` // 1 when it is left out
	Settle    bool        `yaml:"settle,omitempty"`
	SettleMax int64       `yaml:"settleMax,omitempty"`
	Mode      policy.Mode `yaml:"mode,omitempty"`
	PerKey    []limit     `yaml:"perKey,omitempty"`
	PerIP     []limit     `yaml:"perIP,omitempty"`
	Shared    []limit     `yaml:"shared,omitempty"`

	SharedLease duration `yaml:"sharedLease,omitempty"`
}

type scope struct {
	Limits []limit     `yaml:"limits,omitempty"`
	Lease  duration    `yaml:"lease,omitempty"`
	Mode   policy.Mode `yaml:"mode,omitempty"`
}

type bans struct {
	Denials int64    `yaml:"denials"`
	Window  duration `yaml:"window"`
	Base    duration `yaml:"base"`
	Cap     duration `yaml:"cap"`
}

// duration is written as "10s" or "1d".
type duration time.Duration

// MarshalYAML writes the duration.
func (d duration) MarshalYAML() (any, error) { return limiter.ShortWindow(time.Duration(d)), nil }

// UnmarshalYAML reads it.
func (d *duration) UnmarshalYAML(node *yaml.Node) error {
	read, err := limiter.ParseWindow(node.Value)
	*d = duration(read)
	return atLine(node, err)
}

// network is a range of addresses; a single address is one too.
type network netip.Prefix

// MarshalYAML writes the network.
func (n network) MarshalYAML() (any, error) { return netip.Prefix(n).String(), nil }

// UnmarshalYAML reads it. Whether it is masked is left to the Set's Validate.
func (n *network) UnmarshalYAML(node *yaml.Node) error {
	if a, err := netip.ParseAddr(node.Value); err == nil && a.Zone() == "" {
		*n = network(netip.PrefixFrom(a, a.BitLen()))
		return nil
	}
	read, err := netip.ParsePrefix(node.Value)
	if err != nil {
		err = fmt.Errorf("%.60q is no network such as 203.0.113.0/24", node.Value)
	}
	*n = network(read)
	return atLine(node, err)
}

// limit is written in words, or field by field where words would lose something.
type limit limiter.Limit

type limitFields struct {
	Requests    int64    `yaml:"requests"`
	Window      duration `yaml:"window,omitempty"`
	Algorithm   string   `yaml:"algorithm,omitempty"`
	CountDenied bool     `yaml:"countDenied,omitempty"`
	Slots       int      `yaml:"slots,omitempty"`
	Calendar    string   `yaml:"calendar,omitempty"`
	Zone        string   `yaml:"zone,omitempty"`
}

// MarshalYAML writes the limit.
func (l limit) MarshalYAML() (any, error) {
	words := Limit(limiter.Limit(l))
	if read, err := ParseLimit(words); err == nil && read == limiter.Limit(l) {
		return words, nil
	}
	f := limitFields{
		Requests: l.Requests, Window: duration(l.Window), CountDenied: l.CountDenied, Slots: l.Slots,
		Calendar: l.Calendar.String(), Zone: l.Zone,
	}
	if l.Algorithm != limiter.Log {
		f.Algorithm = l.Algorithm.String()
	}
	return f, nil
}

// UnmarshalYAML reads either form.
func (l *limit) UnmarshalYAML(node *yaml.Node) (err error) {
	var read limiter.Limit
	if node.Kind == yaml.ScalarNode {
		read, err = ParseLimit(node.Value)
	} else {
		var f limitFields
		if err := decodeStrictly(node, &f); err != nil {
			return err
		}
		read, err = f.limit()
	}
	*l = limit(read)
	return atLine(node, err)
}

func (f limitFields) limit() (l limiter.Limit, err error) {
	l = limiter.Limit{Requests: f.Requests, Window: time.Duration(f.Window), CountDenied: f.CountDenied,
		Slots: f.Slots, Zone: f.Zone}
	if f.Algorithm != "" {
		if l.Algorithm, err = limiter.ParseAlgorithm(f.Algorithm); err != nil {
			return l, err
		}
	}
	l.Calendar, err = limiter.ParseCalendar(f.Calendar)
	return l, err
}

// pattern is written as people know routes, "GET /orders/{id}", or field by field where
// that would lose something.
type pattern route.Pattern

type patternFields struct {
	API    string `yaml:"api,omitempty"`
	Stage  string `yaml:"stage,omitempty"`
	Method string `yaml:"method,omitempty"`
	Path   string `yaml:"path,omitempty"`
}

// MarshalYAML writes the pattern.
func (p pattern) MarshalYAML() (any, error) {
	text := route.Pattern(p).String()
	if read, err := route.Parse(text); err == nil && read == route.Pattern(p) {
		return text, nil
	}
	return patternFields(p), nil
}

// UnmarshalYAML reads either form. Bounds are left to the Set's Validate.
func (p *pattern) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		read, err := route.Parse(node.Value)
		*p = pattern(read)
		return atLine(node, err)
	}
	var f patternFields
	err := decodeStrictly(node, &f)
	*p = pattern(f)
	return err
}

// Set returns the Set that the file describes, as an edit of current: a plan that current
// has under the same name, or under the one that it was, keeps its number.
func (f *File) Set(current *policy.Set) policy.Set {
	d := f.document
	s := policy.Set{
		Version: f.Version, Plans: make([]policy.Plan, len(d.Plans)), PerIP: d.PerIP.scope(),
		Global: d.Global.scope(),
		Deny:   prefixes(d.Deny), Allow: prefixes(d.Allow), Exempt: prefixes(d.Exempt),
		TokenPlan: d.TokenPlan, AddressPlan: d.AddressPlan, NextNumber: current.NextNumber,
	}
	for i, p := range d.Plans {
		s.Plans[i] = policy.Plan{
			Number: p.number(current, d.Plans), Name: p.Name, Limits: plain(p.Limits), Mode: p.Mode,
			Degraded: p.Degraded, Share: p.Share,
			Candidate: plain(p.Candidate),
		}
	}
	for _, r := range d.Routes {
		cost := int64(1)
		if r.Cost != nil {
			cost = *r.Cost
		}
		s.Routes = append(s.Routes, policy.Route{
			Name: r.Name, Pattern: route.Pattern(r.Pattern), Cost: cost, Settle: r.Settle,
			SettleMax: r.SettleMax, Mode: r.Mode,
			PerKey: plain(r.PerKey), PerIP: plain(r.PerIP), Shared: plain(r.Shared),
			SharedLease: policy.Duration(r.SharedLease),
		})
	}
	if b := d.Bans; b != nil {
		s.Bans = &policy.Bans{Denials: b.Denials, Window: policy.Duration(b.Window),
			Base: policy.Duration(b.Base), Cap: policy.Duration(b.Cap)}
	}
	return s
}

// number is that of the plan in current, 0 for a new one. A name that the file has for
// another plan renames nothing.
func (p plan) number(current *policy.Set, all []plan) int {
	if known, found := current.Plan(p.Name); found {
		return known.Number
	}
	taken := slices.ContainsFunc(all, func(other plan) bool { return other.Name == p.Was })
	if known, found := current.Plan(p.Was); found && !taken {
		return known.Number
	}
	return 0
}

func (s *scope) scope() policy.Scope {
	if s == nil {
		return policy.Scope{}
	}
	return policy.Scope{Limits: plain(s.Limits), Mode: s.Mode, Lease: policy.Duration(s.Lease)}
}

// plain is the list as the Set has it; nil when it is empty.
func plain(limits []limit) []limiter.Limit {
	return each(limits, func(l limit) limiter.Limit { return limiter.Limit(l) })
}

func prefixes(list []network) []netip.Prefix {
	return each(list, func(n network) netip.Prefix { return netip.Prefix(n) })
}

func each[From, To any](list []From, convert func(From) To) []To {
	var all []To
	for _, item := range list {
		all = append(all, convert(item))
	}
	return all
}

// Blame puts what a Set's Validate found wrong beside the lines of the file.
func (f *File) Blame(fields []policy.FieldError) *InvalidError {
	e := &InvalidError{}
	for _, field := range fields {
		e.Problems = append(e.Problems,
			Problem{Line: f.line(field.Field), Field: field.Field, Message: field.Message})
	}
	return e
}

// line is where a field stands, or the nearest that it belongs to.
func (f *File) line(path string) int {
	for path != "" {
		if line := f.lines[path]; line > 0 {
			return line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 1
}

// Problem is what is wrong at one place of a file.
type Problem struct {
	Line    int // from 1
	Field   string
	Message string
}

// String writes it in a line.
func (p Problem) String() string {
	if p.Field == "" {
		return fmt.Sprintf("line %d: %s", p.Line, p.Message)
	}
	return fmt.Sprintf("line %d: %s %s", p.Line, p.Field, p.Message)
}

// InvalidError lists everything wrong with a file.
type InvalidError struct {
	Problems []Problem
	TooMany  bool // fields or values: no policy has so many, and the file was not decoded
}

func (e *InvalidError) Error() string {
	words := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		words[i] = p.String()
	}
	return strings.Join(words, "; ")
}
