package dashboard

import (
	"strings"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

func banFields(_ *dashboard, f *actionForm) []templates.FormField {
	if f.until.Choice.Text == "" {
		f.until.Choice.Text = "1h"
	}
	return form.UntilFields(f.until, "Choose a duration")
}

var graces = []templates.Option{
	{Value: "0s", Text: "none: the old secret stops now"},
	{Value: "1h", Text: "1 hour"},
	{Value: "24h", Text: "1 day"},
	{Value: "168h", Text: "7 days"},
	{Value: "720h", Text: "30 days"},
	{Value: "2160h", Text: "90 days"},
}

func graceFields(_ *dashboard, f *actionForm) []templates.FormField {
	if f.grace.Text == "" {
		f.grace.Text = "24h"
	}
	return []templates.FormField{form.ChoiceField("grace", "Old secret works for", graces, f.grace)}
}

func editFields(_ *dashboard, f *actionForm) []templates.FormField {
	fields := []templates.FormField{
		form.TextField("name", "Name", "", policy.MaxNameLen, f.name),
		form.TextField("tags", "Tags, separated by commas", "team-a, beta", 600, f.tags),
		form.ChoiceField("plan", "Plan", f.planOptions(), f.plan),
	}
	if f.key.Kind == policy.APIKey {
		fields = append(fields, groupField(f.group))
	}
	fields = append(fields, form.UntilFields(f.until, "never expires")...)
	if f.key.Kind == policy.APIKey {
		fields = append(fields, keyRoutesField(f.allow))
	}
	return fields
}

func groupField(in form.Input) templates.FormField {
	field := form.TextField("group", "Group", "none", policy.MaxGroupLen, in)
	field.Hint = "Keys of one group share their plan's limits per group."
	return field
}

func keyRoutesField(in form.Input) templates.FormField {
	return form.RoutesField("One per line, within those of the plan. Empty for all.", in)
}

// planOptions offers every plan, and to callers that others vouch for the one that comes
// with the call.
func (f *actionForm) planOptions() []templates.Option {
	if f.key.Kind == policy.APIKey {
		return wording.PlanOptions(f.set)
	}
	return append([]templates.Option{{Text: "the one that comes with the call"}},
		wording.PlanOptions(f.set)...)
}

// splitTags reads tags with commas between.
func splitTags(text string) []string {
	var tags []string
	for _, tag := range strings.Split(text, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			tags = append(tags, tag)
		}
	}
	return tags
}
