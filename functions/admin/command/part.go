package command

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// The commands of this file change one part of a key. A page makes them to many keys; of one
// key, it edits all parts by Edit.

// MovePlan gives a key another plan.
type MovePlan struct {
	OnKey
	Body struct {
		Plan string `json:"plan" minLength:"1" maxLength:"100" label:"Plan" doc:"Name of the new plan"`
		Why
	}

	number int
}

// change finds the plan that has the name at the start, whatever its name becomes.
func (c *MovePlan) change(set *policy.Set) (app.KeyChange, error) {
	p, found := set.Plan(c.Body.Plan)
	if c.number == 0 && !found {
		return app.KeyChange{}, fieldError("plan", "no plan has this name")
	}
	c.number = cmp.Or(c.number, p.Number)
	return app.KeyChange{
		Action: registry.KeyPlan,
		Alter:  func(k *policy.Key) { k.PlanNumber = c.number },
	}, nil
}

func (c *MovePlan) options(name string) []templates.Option {
	if name != "plan" {
		return nil
	}
	return wording.PlanOptions(c.set)
}

// TagsBody is a list of tags.
type TagsBody struct {
	Tags []string `json:"tags" minItems:"1" maxItems:"10" most:"1000" list:"tags" label:"Tags, separated by commas" sample:"team-a, beta"`
	Why
}

func (b TagsBody) check() error {
	fields := policy.TagErrors(b.Tags)
	if n := len(b.Tags); n == 0 || n > policy.MaxTags {
		fields = append(fields, policy.FieldError{Field: "tags",
			Message: fmt.Sprintf("%d given: must be 1 to %d", n, policy.MaxTags)})
	}
	return policy.Invalid(fields)
}

// Tag adds tags to a key.
type Tag struct {
	OnKey
	Body TagsBody
}

func (c *Tag) change(*policy.Set) (app.KeyChange, error) {
	return app.KeyChange{Action: registry.KeyEdit, Alter: func(k *policy.Key) {
		present := func(tag string) bool { return slices.Contains(k.Tags, tag) }
		k.Tags = slices.Concat(k.Tags, slices.DeleteFunc(slices.Clone(c.Body.Tags), present))
	}}, c.Body.check()
}

// Untag removes tags from a key.
type Untag struct {
	OnKey
	Body TagsBody
}

func (c *Untag) change(*policy.Set) (app.KeyChange, error) {
	return app.KeyChange{Action: registry.KeyEdit, Alter: func(k *policy.Key) {
		k.Tags = slices.DeleteFunc(slices.Clone(k.Tags), func(tag string) bool {
			return slices.Contains(c.Body.Tags, tag)
		})
	}}, c.Body.check()
}

// SetGroup puts a key into a group, or takes it out of its group.
type SetGroup struct {
	OnKey
	Body struct {
		Group string `json:"group,omitempty" maxLength:"64" label:"New group" sample:"none" doc:"Group; if omitted, none"`
		Why
	}
}

func (c *SetGroup) change(*policy.Set) (app.KeyChange, error) {
	problem := ""
	if c.Body.Group != "" {
		problem = policy.GroupProblem(c.Body.Group)
	}
	return app.KeyChange{Action: registry.KeyEdit, Alter: func(k *policy.Key) { k.Group = c.Body.Group }},
		fieldError("group", problem)
}

// SetExpiry sets when a key expires.
type SetExpiry struct {
	OnKey
	Body struct {
		Expires *time.Time `json:"expires,omitempty" label:"Expires" never:"never expires" doc:"The new expiry; if omitted, never"`
		Why
	}
}

func (c *SetExpiry) change(*policy.Set) (app.KeyChange, error) {
	var expires time.Time
	problem := ""
	if c.Body.Expires != nil {
		expires = c.Body.Expires.UTC()
		problem = future(expires, "to block keys now, revoke them")
	}
	return app.KeyChange{Action: registry.KeyEdit, Alter: func(k *policy.Key) { k.Expires = expires }},
		fieldError("expires", problem)
}
