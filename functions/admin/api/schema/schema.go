// Package schema is the values that operations of more than one subject answer: how a
// limit stands, numbers of calls, who made a change, what is wrong with a field. Package
// policydoc has those of the policies. It reads nothing from Valkey.
package schema

import (
	"strings"

	"tidegate/functions/admin/api/rest"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
)

// Counts are numbers of calls.
type Counts struct {
	Allowed         int64 `json:"allowed"`
	Denied          int64 `json:"denied"`
	ShadowDenied    int64 `json:"shadowDenied" doc:"Of all calls, those that a limit in shadow would have denied"`
	CandidateDenied int64 `json:"candidateDenied" doc:"Of all calls, those that a candidate would have denied"`
	Degraded        int64 `json:"degraded" doc:"Of all calls, those decided without the store"`
	Cost            int64 `json:"cost" doc:"Of the allowed calls together"`
}

// CountsOf returns counts as operations answer them.
func CountsOf(c usage.Counts) Counts {
	return Counts{c.Allowed, c.Denied, c.ShadowDenied, c.CandidateDenied, c.Degraded, c.Cost}
}

// Actor is who made a change.
type Actor struct {
	Kind string `json:"kind" enum:"user,token,system"`
	Name string `json:"name"`
}

// InBody says where fields stand in the body: without the prefix cut.
func InBody(fields []policy.FieldError, cut string) []rest.Detail {
	all := make([]rest.Detail, len(fields))
	for i, f := range fields {
		all[i] = rest.Detail{
			Location: "body." + strings.TrimPrefix(f.Field, cut), Message: rest.Clip(f.Message)}
	}
	return all
}
