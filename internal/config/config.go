// Package config reads a program's configuration from its environment, once at the start,
// and holds the bounds of settings. The functions check the bounds when they start. The
// infrastructure checks them at synthesis, before a deployment.
package config

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// Problems collects the first problem of each variable. The zero value has none.
type Problems struct {
	named map[string]bool
	all   []error
}

// Add records a variable's problem, as a text that continues its name: what is wrong and
// what to do. The text must contain no secret.
func (p *Problems) Add(variable, advice string) {
	if p.named[variable] {
		return
	}
	if p.named == nil {
		p.named = map[string]bool{}
	}
	p.named[variable] = true
	p.all = append(p.all, fmt.Errorf("%s %s", variable, advice))
}

// AddError records an error whose text names its variables. It ignores nil.
func (p *Problems) AddError(err error) {
	if err != nil {
		p.all = append(p.all, err)
	}
}

// Has reports whether at least one of the variables has a problem.
func (p *Problems) Has(variables ...string) bool {
	for _, v := range variables {
		if p.named[v] {
			return true
		}
	}
	return false
}

// Err returns all problems as one error; nil if there are none.
func (p *Problems) Err() error { return errors.Join(p.all...) }

// Read fills a struct whose fields carry env tags, as caarlos0/env defines them, from
// NAME=value strings. A variable that cannot be read is a problem, and its field is zero.
func Read[T any](environ []string) (T, Problems) {
	var c T
	var p Problems
	err := env.ParseWithOptions(&c, env.Options{Environment: env.ToMap(environ)})
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		p.AddError(err)
		return c, p
	}
	for _, e := range all.Errors {
		if unset, ok := errors.AsType[env.VarIsNotSetError](e); ok {
			p.Add(unset.Key, "is not set")
		} else if empty, ok := errors.AsType[env.EmptyVarError](e); ok {
			p.Add(empty.Key, "is empty")
		} else if parse, ok := errors.AsType[env.ParseError](e); ok {
			p.Add(variableOf[T](parse.Name), "cannot be read: "+parse.Err.Error())
		} else {
			p.AddError(e)
		}
	}
	return c, p
}

// variableOf returns the name of the variable that fills a field of T.
func variableOf[T any](field string) string {
	if f, ok := reflect.TypeFor[T]().FieldByName(field); ok {
		return f.Tag.Get("env")
	}
	return field
}

// Duration has the bounds of a setting that is a duration.
type Duration struct{ Least, Most time.Duration }

// The bounds of the functions' settings. docs/configuration.md describes each setting.
var (
	ValkeyTimeout        = Duration{time.Millisecond, 10 * time.Second}
	ValkeyConnectTimeout = Duration{100 * time.Millisecond, 8 * time.Second}
	CallerCache          = Duration{0, 24 * time.Hour}
	DenyCache            = Duration{0, time.Minute}
	SettleWithin         = Duration{time.Second, 24 * time.Hour}
	SessionIdle          = Duration{time.Minute, 30 * 24 * time.Hour}
	SessionLifetime      = Duration{time.Minute, 30 * 24 * time.Hour}
	// AuditRetention is at least 31 days, because charts mark the changes of 30 days.
	AuditRetention = Duration{31 * 24 * time.Hour, 10 * 365 * 24 * time.Hour}
)

// The admin function's defaults of SESSION_IDLE and SESSION_LIFETIME.
const (
	DefaultSessionIdle     = 30 * time.Minute
	DefaultSessionLifetime = 12 * time.Hour
)

// Check returns an error for a value out of bounds.
func (d Duration) Check(value time.Duration) error {
	if value < d.Least || value > d.Most {
		return fmt.Errorf("is %s: must be %s", value, d)
	}
	return nil
}

// String returns the bounds as "1s to 24h".
func (d Duration) String() string { return brief(d.Least) + " to " + brief(d.Most) }

// brief formats a duration without trailing zero units: 24h, not 24h0m0s.
func brief(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// Networks parses networks such as 203.0.113.0/24 and 2001:db8::/32, and single
// addresses, separated by commas or white space. For an empty text it returns none. The
// error names each invalid item and says how to write it.
func Networks(text string) ([]netip.Prefix, error) {
	if text == "" {
		return nil, nil
	}
	var all []netip.Prefix
	var errs []error
	for item := range strings.FieldsFuncSeq(text, func(c rune) bool {
		return strings.ContainsRune(", \t\r\n", c)
	}) {
		prefix, err := network(item)
		all, errs = append(all, prefix), append(errs, err)
	}
	if len(all) == 0 {
		return nil,
			errors.New("has no network: use a form such as 203.0.113.0/24 or 2001:db8::/32, or leave it out")
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}

func network(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, fmt.Errorf("has %.60q, which is not a network: use a form such as 203.0.113.0/24 or "+
			"2001:db8::/32", text)
	case p.Addr().Is4In6():
		return p, fmt.Errorf("has %.60q: write it as an IPv4 network", text)
	case p != p.Masked():
		return p, fmt.Errorf("has %.60q, whose address has bits beyond the prefix length: use %s", text,
			p.Masked())
	}
	return p, nil
}
