// Package schema has the parts of answers that several operations share: times, field
// errors. Package policydoc has those of the policies. Packages api and keys import it. It
// must not read Valkey.
package schema

import (
	"strings"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/internal/policy"
)

// InBody converts errors of fields to details of the body. It trims the prefix cut from
// each field.
func InBody(fields []policy.FieldError, cut string) []rest.Detail {
	all := make([]rest.Detail, len(fields))
	for i, f := range fields {
		all[i] = rest.Detail{
			Location: "body." + strings.TrimPrefix(f.Field, cut), Message: rest.Clip(f.Message)}
	}
	return all
}

// After returns the instant d after now, or nil if d is not positive.
func After(now time.Time, d time.Duration) *time.Time {
	if d <= 0 {
		return nil
	}
	return Given(now.Add(d))
}

// Given returns t in UTC, or nil for the zero time.
func Given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// TimeOf is the inverse of Given: nil is the zero time.
func TimeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
