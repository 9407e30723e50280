package policy

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
)

// MaxNameLen is the longest name of a key, in characters.
const MaxNameLen = 100

func (n NewKey) validate() error {
	var fields []FieldError
	if problem := nameProblem(n.Name); problem != "" {
		fields = append(fields, FieldError{"name", problem})
	}
	if !apikey.ValidEnv(n.Env) {
		fields = append(fields, FieldError{"env", "must be 1 to 16 lower-case letters or digits"})
	}
	if problem := nameProblem(n.Plan); problem != "" {
		fields = append(fields, FieldError{"plan", problem})
	}
	return invalid(append(fields, limitErrors(n.Limits)...))
}

func nameProblem(name string) string {
	switch {
	case len(name) > utf8.UTFMax*MaxNameLen || utf8.RuneCountInString(name) > MaxNameLen:
		return fmt.Sprintf("is longer than %d characters", MaxNameLen)
	case strings.TrimSpace(name) == "":
		return fmt.Sprintf("is empty: must be 1 to %d characters", MaxNameLen)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "has characters that cannot be printed"
	}
	return ""
}

func limitErrors(limits []limiter.Limit) []FieldError {
	if len(limits) < 1 || len(limits) > limiter.MaxLimits {
		return []FieldError{{"limits", fmt.Sprintf("%d given: must be 1 to %d", len(limits), limiter.MaxLimits)}}
	}
	var fields []FieldError
	for i, l := range limits {
		for _, e := range l.Errors() {
			fields = append(fields, FieldError{fmt.Sprintf("limits[%d].%s", i, e.Field), e.Message})
		}
	}
	return fields
}

func invalid(fields []FieldError) error {
	if len(fields) == 0 {
		return nil
	}
	return &InvalidError{fields}
}
