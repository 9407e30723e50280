// Package schema has the parts of answers that several operations share: the state of a
// limit, numbers of calls, the author of a change, field errors. Package policydoc has
// those of the policies. Packages api and keys import it. It must not read Valkey.
package schema

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
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

// LimitState is a limit and what it counts now.
type LimitState struct {
	Limit      policydoc.LimitFields `json:"limit"`
	Text       string                `json:"text" doc:"The limit in words" example:"100 per 10 seconds, on search"`
	Source     string                `json:"source" enum:"plan,policy,override,group" doc:"Where the limit stands: group is an override of the key's group"`
	Plan       string                `json:"plan,omitempty" doc:"Name of the plan where the limit stands"`
	Who        string                `json:"who" doc:"For whom the limit counts apart" example:"each caller"`
	Route      string                `json:"route,omitempty" doc:"Route or pattern whose calls it counts; absent for every call"`
	Cost       int64                 `json:"cost" doc:"What the call takes from the limit"`
	Used       *int64                `json:"used,omitempty" doc:"Absent if unread"`
	Remaining  *int64                `json:"remaining,omitempty" doc:"Absent if unread"`
	Owed       int64                 `json:"owed,omitempty" doc:"Cost counted above the limit by settlements; the limit denies until it has drained"`
	Next       int64                 `json:"next,omitempty" doc:"Milliseconds until remaining rises if nobody calls; absent if nothing is used"`
	RetryAfter int64                 `json:"retryAfter,omitempty" doc:"Milliseconds until the call fits if nobody else calls; absent if it fits, or never does"`
	Never      bool                  `json:"never,omitempty" doc:"The cost is above the limit"`
	Unread     bool                  `json:"unread,omitempty" doc:"The state is not known: each address or parameter has its own, or another limit denied first"`
	CountsOnly bool                  `json:"countsOnly,omitempty" doc:"An override replaces the limit: it goes on counting and denies nothing"`
}

// sources has the names of the sources of limits.
var sources = [...]string{limits.FromPlan: "plan", limits.FromPolicy: "policy",
	limits.FromOverride: "override", limits.FromGroupOverride: "group"}

// StateOf converts the state of a limit.
func StateOf(set *policy.Set, l enforce.LimitState) LimitState {
	out := LimitState{Limit: policydoc.LimitFields(l.Fields()), Text: l.String(),
		Source: sources[l.Source],
		Who:    cmp.Or(l.For(), "each caller"), Route: l.On, Cost: l.Cost, Owed: l.Owed,
		Next: l.Next.Milliseconds(), RetryAfter: ceilMilliseconds(l.RetryAfter), Never: l.Never,
		Unread: l.Unread, CountsOnly: l.CountsOnly}
	if number, err := strconv.Atoi(l.PlanID); err == nil && l.Source == limits.FromPlan {
		out.Plan = set.PlanName(number)
	}
	if !l.Unread {
		used, remaining := l.Used(), l.Remaining
		out.Used, out.Remaining = &used, &remaining
	}
	return out
}

// ceilMilliseconds rounds up, so that a client that waits so long is not early.
func ceilMilliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// StatesOf converts the states of limits. It is empty, not nil, without limits.
func StatesOf(set *policy.Set, list []enforce.LimitState) []LimitState {
	all := make([]LimitState, len(list))
	for i, l := range list {
		all[i] = StateOf(set, l)
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
