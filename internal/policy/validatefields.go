package policy

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"tidegate/internal/limiter"
)

// TextProblem says what is wrong with a text that people read; it is empty when nothing
// is.
func TextProblem(text string, longest int) string {
	switch {
	case len(text) > utf8.UTFMax*longest || utf8.RuneCountInString(text) > longest:
		return fmt.Sprintf("is longer than %d characters", longest)
	case strings.TrimSpace(text) == "":
		return fmt.Sprintf("is empty: must be 1 to %d characters", longest)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsPrint(r)
	}):
		return "has characters that cannot be printed"
	}
	return ""
}

func modeProblem(m Mode) string {
	switch m {
	case "", Enforce, Shadow, Off:
		return ""
	}
	return fmt.Sprintf("is %.20q: must be enforce, shadow or off", string(m))
}

// limitErrors checks a list of limits; field is its name.
func limitErrors(field string, limits []limiter.Limit, required bool) []FieldError {
	if len(limits) > limiter.MaxLimits || required && len(limits) == 0 {
		return []FieldError{{field, fmt.Sprintf("%d given: must be 1 to %d", len(limits), limiter.MaxLimits)}}
	}
	var fields []FieldError
	for i, l := range limits {
		for _, e := range l.Errors() {
			fields = append(fields, FieldError{fmt.Sprintf("%s[%d].%s", field, i, e.Field), e.Message})
		}
	}
	return fields
}

// costErrors refuses limits that a call of some route could never pass.
func costErrors(field string, limits []limiter.Limit, routes []Route) []FieldError {
	var fields []FieldError
	for i, l := range limits {
		for _, r := range routes {
			if r.Cost > l.Requests {
				fields = append(fields, FieldError{
					fmt.Sprintf("%s[%d].requests", field, i),
					fmt.Sprintf("is %d: a call of route %q costs %d and could never pass", l.Requests,
						r.Name, r.Cost),
				})
				break
			}
		}
	}
	return fields
}

func nameProblem(name string, seen map[string]bool) string {
	if problem := TextProblem(name, MaxNameLen); problem != "" {
		return problem
	}
	if seen[name] {
		return fmt.Sprintf("%q is taken: names must differ", name)
	}
	seen[name] = true
	return ""
}

func prefixErrors(field string, list []netip.Prefix) []FieldError {
	if len(list) > MaxPrefixes {
		return []FieldError{{field, fmt.Sprintf("%d given: must be at most %d", len(list), MaxPrefixes)}}
	}
	var fields []FieldError
	for i, p := range list {
		if !p.IsValid() || p.Addr().Is4In6() || p.Masked() != p {
			fields = append(fields, FieldError{fmt.Sprintf("%s[%d]", field, i),
				fmt.Sprintf("is %s: must be a network such as 203.0.113.0/24", p)})
		}
	}
	return fields
}
