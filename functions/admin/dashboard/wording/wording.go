// Package wording says in words what pages show of the policy and of keys: what a limit
// is on and how it stands, costs, overrides, what is out of the ordinary about a key, and
// the plans and modes that inputs offer. It reads nothing from Valkey.
package wording

import (
	"strconv"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
)

// Invalid says what the store found wrong, at most three fields.
func Invalid(invalid *policy.InvalidError) string {
	words := ""
	for i, f := range invalid.Fields {
		if i == 3 {
			return words + "…"
		}
		words += f.Field + " " + f.Message + ". "
	}
	return page.Clip(words, MaxText)
}

// MaxText bounds the characters of one side of a change.
const MaxText = 400

// OrNone returns text, or "none" if text is empty.
func OrNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// Scope says on what a limit is.
func Scope(scope string) string {
	switch scope {
	case policy.ScopeKey:
		return "the key"
	case policy.ScopeRoute:
		return "the key, on this rule"
	case policy.ScopeIP:
		return "the address"
	case policy.ScopeRouteIP:
		return "the address, on this rule"
	case policy.ScopeGroup:
		return "the group"
	case policy.ScopeGlobal:
		return "all callers"
	case policy.ScopeRouteAll:
		return "all callers, on this rule"
	}
	return scope
}

// Cost writes the cost of a call.
func Cost(cost int64) string {
	if cost == 0 {
		return "free"
	}
	return strconv.FormatInt(cost, 10)
}

// Override says all of an override but its reason.
func Override(o *policy.Override) string {
	if o == nil {
		return "the plan's"
	}
	words := policydoc.LimitsText(o.Limits)
	switch o.Mode {
	case policy.Shadow:
		words += ", in shadow"
	case policy.Off:
		words = "no limits"
	case policy.Enforce:
	}
	if !o.Until.IsZero() {
		words += ", until " + page.Instant(o.Until).Text
	}
	return words
}
