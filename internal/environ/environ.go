// Package environ reads a program's configuration from its environment, once, at its start.
package environ

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/caarlos0/env/v11"
)

// Read fills a struct whose fields carry env tags, as caarlos0/env defines them, from NAME=value strings. Its error names every variable that cannot
// be read; it does not repeat their values where the parser does not.
func Read[T any](environ []string) (T, error) {
	var c T
	err := env.ParseWithOptions(&c, env.Options{Environment: env.ToMap(environ)})
	var all env.AggregateError
	if !errors.As(err, &all) {
		return c, err
	}
	named := make([]error, len(all.Errors))
	for i, e := range all.Errors {
		named[i] = e
		var parse env.ParseError
		if !errors.As(e, &parse) {
			continue
		}
		if field, ok := reflect.TypeFor[T]().FieldByName(parse.Name); ok {
			named[i] = fmt.Errorf("%s cannot be read: %w", field.Tag.Get("env"), parse.Err)
		}
	}
	return c, errors.Join(named...)
}
