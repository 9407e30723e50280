// Package schema has the parts of answers that several operations share: the state of a
// limit, numbers of calls, the author of a change, field errors. Package policydoc has
// those of the policies. Packages api and keys import it. It must not read Valkey.
package schema

import (
	"strings"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
)

// Counts are numbers of calls.
type Counts struct {
	Allowed      int64 `json:"allowed"`
	Denied       int64 `json:"denied"`
	ShadowDenied int64 `json:"shadowDenied" doc:"Calls that a limit in shadow mode would have denied"`
	Degraded     int64 `json:"degraded" doc:"Calls decided while Valkey was unavailable"`
	Cost         int64 `json:"cost" doc:"Total cost of the allowed calls"`
}

// CountsOf converts counts.
func CountsOf(c usage.Counts) Counts {
	return Counts{c.Allowed, c.Denied, c.ShadowDenied, c.Degraded, c.Cost}
}

// Actor is who made a change.
type Actor struct {
	Kind string `json:"kind" enum:"user,token,system"`
	Name string `json:"name"`
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

// Window is the current state of a limit.
type Window struct {
	Limit     policydoc.Limit `json:"limit"`
	Text      string          `json:"text" doc:"The limit in words" example:"100 per 10 seconds"`
	Used      int64           `json:"used"`
	Remaining int64           `json:"remaining"`
	Owed      int64           `json:"owed,omitempty" doc:"Cost counted above the limit by settlements; the limit denies until it has drained"`
	Since     *time.Time      `json:"since,omitempty" doc:"When counting began, if that is within the present window"`
	Resets    *time.Time      `json:"resets,omitempty" doc:"When the limit is unused again if nobody calls; absent if it is unused now"`
	NextFree  *time.Time      `json:"nextFree,omitempty" doc:"When the next call is allowed; absent if it is allowed now"`
}

// WindowOf returns the state of a limit at now.
func WindowOf(u limiter.Usage, now time.Time) Window {
	return Window{
		Limit: policydoc.LimitOf(u.Limit), Text: policydoc.LimitText(u.Limit),
		Used: u.Used(), Remaining: u.Remaining, Owed: u.Owed, Since: Given(u.Since),
		Resets: After(now, u.Reset), NextFree: After(now, u.RetryAfter),
	}
}

// WindowsOf returns the state of the limits of a decision when it was made.
func WindowsOf(d limiter.Decision) []Window {
	all := make([]Window, len(d.Limits))
	for i, u := range d.Limits {
		all[i] = WindowOf(u, d.Now)
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
