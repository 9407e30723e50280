package settings

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Read returns the props for the values of flags, by flag name. Unset flags get their
// defaults. The error lists every problem with the flag's name.
func Read(values map[string]string) (Props, error) {
	stage := strings.TrimSpace(values["stage"])
	prod := stage == "prod"
	p := Props{Keep: prod, Example: !prod, Observe: Observe{Metrics: prod, AccessLogs: prod}}
	r := reader{values: values}
	r.read(reflect.ValueOf(&p).Elem(), "")
	if err := r.unknown(); err != nil {
		return p, err
	}
	p.setDefaults()
	return p, errors.Join(append(r.errs, p.check())...)
}

// Names returns the names of all flags.
func Names() []string {
	var r reader
	r.read(reflect.ValueOf(new(Props)).Elem(), "")
	return r.names
}

// reader sets fields from the values of their flags. It collects the names of all flags
// and the errors.
type reader struct {
	values map[string]string
	names  []string
	errs   []error
}

// unknown returns an error for each value whose name is not a flag.
func (r *reader) unknown() error {
	var errs []error
	for _, name := range sorted(r.values) {
		if !slices.Contains(r.names, name) {
			errs = append(errs, fmt.Errorf("-c %s=%s: unknown flag; the flags are %s", name,
				r.values[name], strings.Join(r.names, ", ")))
		}
	}
	return errors.Join(errs...)
}

// read sets the fields of a struct whose flags have a value. A flag's name is the prefix
// and the field's tag.
func (r *reader) read(part reflect.Value, prefix string) {
	for i := range part.NumField() {
		tag, field := part.Type().Field(i).Tag, part.Field(i)
		name := prefix + tag.Get("flag")
		if field.Kind() == reflect.Struct {
			r.read(field, name)
			continue
		}
		r.names = append(r.names, name)
		text := strings.TrimSpace(r.values[name])
		if text == "" {
			continue
		}
		if err := parse(field.Addr().Interface(), text, tag); err != nil {
			r.errs = append(r.errs, fmt.Errorf("-c %s=%s: %w", name, r.values[name], err))
		}
	}
}

// parse sets a field from text. The field's tag may restrict the values.
func parse(field any, text string, tag reflect.StructTag) (err error) {
	switch field := field.(type) {
	case *bool:
		*field = text == "true"
		return oneOf(text, []string{"true", "false"})
	case *int:
		*field, err = number(text, tag)
	case *[]string:
		*field = list(text)
	case *map[string]string:
		*field, err = pairs(text)
	case **time.Duration:
		var d time.Duration
		*field = &d
		if d, err = time.ParseDuration(text); err != nil {
			err = errors.New("must be a duration such as 500ms, 10m or 2h")
			*field = nil
		}
	default:
		reflect.ValueOf(field).Elem().SetString(text)
		if values := list(tag.Get("values")); values != nil {
			return oneOf(text, values)
		}
	}
	return err
}

// oneOf returns an error that lists the values as "a, b or c", unless text is one of
// them.
func oneOf(text string, values []string) error {
	if slices.Contains(values, text) {
		return nil
	}
	last := len(values) - 1
	return fmt.Errorf("must be %s or %s", strings.Join(values[:last], ", "), values[last])
}

// number parses a whole number in the range of the field's tag. It parses "none" if the
// tag has a number for none. It refuses 0, which means the default in a field.
func number(text string, tag reflect.StructTag) (int, error) {
	if none, ok := tag.Lookup("none"); ok && text == "none" {
		return strconv.Atoi(none)
	}
	n, err := strconv.Atoi(text)
	if bounds, ok := tag.Lookup("range"); ok {
		low, high := 0, 0
		if _, bad := fmt.Sscanf(bounds, "%d-%d", &low, &high); bad != nil {
			panic(bad) // a mistake in Props
		}
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("must be a whole number from %d to %d", low, high)
		}
	}
	if err != nil || n < 1 {
		return 0, errors.New("must be a whole number, at least 1")
	}
	return n, nil
}

func list(text string) []string {
	var all []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			all = append(all, item)
		}
	}
	return all
}

func pairs(text string) (map[string]string, error) {
	all := map[string]string{}
	for _, item := range list(text) {
		key, value, found := strings.Cut(item, "=")
		if !found {
			return nil, errors.New("must be name=value,name=value")
		}
		if _, twice := all[key]; twice {
			return nil, fmt.Errorf("must have %q once", key)
		}
		all[key] = value
	}
	return all, nil
}
