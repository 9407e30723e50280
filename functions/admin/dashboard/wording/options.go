package wording

import (
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// PlanOptions offers every plan by its name.
func PlanOptions(set *policy.Set) []templates.Option {
	var options []templates.Option
	for _, p := range set.Plans {
		options = append(options, templates.Option{
			Value: p.Name, Text: page.Clip(p.Name, page.MaxName) + ": " + policydoc.LimitsText(p.Limits),
		})
	}
	return options
}

// ModeOptions are what limits can do to a call.
func ModeOptions() []templates.Option {
	return []templates.Option{
		{Value: string(policy.Enforce), Text: "enforce: calls over a limit are denied"},
		{Value: string(policy.Shadow), Text: "shadow: count and record, deny nothing"},
		{Value: string(policy.Off), Text: "off: count nothing, let every call pass"},
	}
}
