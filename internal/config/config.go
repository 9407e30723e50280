// Package config reads a program's configuration from its environment, once at the start,
// and holds the bounds of settings. The functions check the bounds when they start. The
// infrastructure checks them at synthesis, before a deployment.
package config

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/caarlos0/env/v11"
)

// Problems collects the first problem of each variable. The zero value has none.
type Problems struct {
	named map[string]bool
	all   []error
}

// Add records what is wrong with a variable and what to do. The advice must contain no
// secret.
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

// AddError records an error that names its variables itself. It ignores nil.
func (p *Problems) AddError(err error) {
	if err != nil {
		p.all = append(p.all, err)
	}
}

// Has reports whether a problem of one of the variables was added.
func (p *Problems) Has(variables ...string) bool {
	for _, v := range variables {
		if p.named[v] {
			return true
		}
	}
	return false
}

// Err returns all problems as one error; nil when there are none.
func (p *Problems) Err() error { return errors.Join(p.all...) }

// Read fills a struct whose fields carry env tags, as caarlos0/env defines them, from
// NAME=value strings. A variable that cannot be read is a problem, and its field is zero.
func Read[T any](environ []string) (T, Problems) {
	var c T
	var p Problems
	err := env.ParseWithOptions(&c, env.Options{Environment: env.ToMap(environ)})
	var all env.AggregateError
	if !errors.As(err, &all) {
		p.AddError(err)
		return c, p
	}
	for _, e := range all.Errors {
		var parse env.ParseError
		var unset env.VarIsNotSetError
		var empty env.EmptyVarError
		switch {
		case errors.As(e, &unset):
			p.Add(unset.Key, "is not set")
		case errors.As(e, &empty):
			p.Add(empty.Key, "is empty")
		case errors.As(e, &parse):
			p.Add(tagOf[T](parse.Name), "cannot be read: "+parse.Err.Error())
		default:
			p.AddError(e)
		}
	}
	return c, p
}

// tagOf returns the variable of a struct's field.
func tagOf[T any](field string) string {
	if f, ok := reflect.TypeFor[T]().FieldByName(field); ok {
		return f.Tag.Get("env")
	}
	return field
}
