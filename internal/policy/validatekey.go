package policy

import (
	"fmt"
	"time"

	"tidegate/internal/apikey"
)

// Bounds of what people write.
const (
	MaxNameLen   = 100 // characters of a name
	MaxReasonLen = 200 // characters of a reason
	MaxTags      = 10
	MaxTagLen    = 50 // characters of a tag
)

// Validate checks a key against the Set, remembers its plan's number and writes its mode
// out.
func (k *Key) Validate(set *Set) error {
	if k.Override != nil {
		o := *k.Override
		o.Mode = OrEnforce(o.Mode)
		k.Override = &o
	}
	var fields []FieldError
	add := func(field, problem string) {
		if problem != "" {
			fields = append(fields, FieldError{field, problem})
		}
	}
	add("name", TextProblem(k.Name, MaxNameLen))
	if k.Kind == APIKey && !apikey.ValidEnv(k.Env) {
		add("env", "must be 1 to 16 lower-case letters or digits")
	}
	if len(k.Tags) > MaxTags {
		add("tags", fmt.Sprintf("%d given: must be at most %d", len(k.Tags), MaxTags))
	}
	for i, tag := range k.Tags {
		add(fmt.Sprintf("tags[%d]", i), TextProblem(tag, MaxTagLen))
	}
	p, found := set.Plan(k.Plan)
	if k.PlanNumber = p.Number; !found && (k.Kind == APIKey || k.Plan != "") {
		add("plan", fmt.Sprintf("no plan is named %.100q: create it first", k.Plan))
	}
	if k.Kind != APIKey && len(k.Allow) > 0 {
		add("allow", "is for API keys alone: give it to the plan")
	}
	fields = append(fields, allowErrors("allow", k.Allow)...)
	switch {
	case k.Group != "" && k.Kind != APIKey:
		add("group", "is for API keys alone")
	case k.Group != "":
		add("group", GroupProblem(k.Group))
	}
	add("expires", timeProblem(k.Expires))
	add("bannedUntil", timeProblem(k.Banned))
	return Invalid(append(fields, k.Override.errors(set)...))
}

func (o *Override) errors(set *Set) []FieldError {
	if o == nil {
		return nil
	}
	fields := limitErrors("override.limits", o.Limits, o.Mode != Off)
	if problem := modeProblem(o.Mode); problem != "" {
		fields = append(fields, FieldError{"override.mode", problem})
	}
	if problem := TextProblem(o.Reason, MaxReasonLen); problem != "" {
		fields = append(fields, FieldError{"override.reason", problem})
	}
	if problem := timeProblem(o.Until); problem != "" {
		fields = append(fields, FieldError{"override.until", problem})
	}
	if len(fields) > 0 {
		return fields
	}
	return costErrors("override.limits", o.Limits, set.Routes)
}

func timeProblem(t time.Time) string {
	if !t.IsZero() && (t.Year() < 2000 || t.Year() > 2200) {
		return fmt.Sprintf("is %s: must lie between 2000 and 2200", t.Format(time.DateOnly))
	}
	return ""
}
