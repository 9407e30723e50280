// Package schema has the parts of answers that several operations share: numbers of calls by
// cause, times, field errors. Package policydoc has those of the policies. Packages api and
// keys import it. It must not read Valkey.
package schema

import (
	"strings"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// KindCount is the number of calls that were denied by a limit, or refused for a cause and a
// reason, or that a limit in shadow would have denied.
type KindCount struct {
	Cause  string `json:"cause" enum:"missing,malformed,unknown,revoked,expired,old-secret,address,access,limit,ban,unavailable,shadow"`
	Limit  string `json:"limit,omitempty" example:"10 per 10 seconds"`
	Plan   string `json:"plan,omitempty" doc:"Of the callers; absent in the counts of one caller"`
	Reason string `json:"reason,omitempty"`
	Calls  int64  `json:"calls"`
}

// KindsOf converts counts by kind. It is empty, not nil, without any.
func KindsOf(all []records.KindCount) []KindCount {
	out := make([]KindCount, len(all))
	for i, k := range all {
		out[i] = KindCount{k.Cause.String(), k.Limit, k.Plan, k.Reason, k.Calls}
	}
	return out
}

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
