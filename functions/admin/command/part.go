package command

import (
	"fmt"
	"slices"
	"time"

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

func (*MovePlan) Action() string        { return registry.KeyPlan }
func (c *MovePlan) Alter(k *policy.Key) { k.PlanNumber = c.number }

// Prepare implements app.KeyChange. The plan is the one that had the name at the start,
// whatever its name becomes.
func (c *MovePlan) Prepare(set *policy.Set) error {
	if c.number > 0 {
		return nil
	}
	p, found := set.Plan(c.Body.Plan)
	if c.number = p.Number; !found {
		return fieldError("plan", "no plan has this name")
	}
	return nil
}

// Options implements chooser.
func (c *MovePlan) Options(name string) []templates.Option {
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

func (*Tag) Action() string              { return registry.KeyEdit }
func (c *Tag) Prepare(*policy.Set) error { return c.Body.check() }
func (c *Tag) Alter(k *policy.Key) {
	present := func(tag string) bool { return slices.Contains(k.Tags, tag) }
	k.Tags = slices.Concat(k.Tags, slices.DeleteFunc(slices.Clone(c.Body.Tags), present))
}

// Untag removes tags from a key.
type Untag struct {
	OnKey
	Body TagsBody
}

func (*Untag) Action() string              { return registry.KeyEdit }
func (c *Untag) Prepare(*policy.Set) error { return c.Body.check() }
func (c *Untag) Alter(k *policy.Key) {
	k.Tags = slices.DeleteFunc(slices.Clone(k.Tags), func(tag string) bool {
		return slices.Contains(c.Body.Tags, tag)
	})
}

// SetGroup puts a key into a group, or takes it out of its group.
type SetGroup struct {
	OnKey
	Body struct {
		Group string `json:"group,omitempty" maxLength:"64" label:"New group" sample:"none" doc:"Group; if omitted, none"`
		Why
	}
}

func (*SetGroup) Action() string        { return registry.KeyEdit }
func (c *SetGroup) Alter(k *policy.Key) { k.Group = c.Body.Group }

// Prepare implements app.KeyChange.
func (c *SetGroup) Prepare(*policy.Set) error {
	if c.Body.Group == "" {
		return nil
	}
	return fieldError("group", policy.GroupProblem(c.Body.Group))
}

// SetExpiry sets when a key expires.
type SetExpiry struct {
	OnKey
	Body struct {
		Expires *time.Time `json:"expires,omitempty" label:"Expires" never:"never expires" doc:"The new expiry; if omitted, never"`
		Why
	}
}

func (*SetExpiry) Action() string { return registry.KeyEdit }

// Prepare implements app.KeyChange.
func (c *SetExpiry) Prepare(*policy.Set) error {
	if c.Body.Expires == nil {
		return nil
	}
	return fieldError("expires", future(*c.Body.Expires, "to block keys now, revoke them"))
}

// Alter implements app.KeyChange.
func (c *SetExpiry) Alter(k *policy.Key) {
	if k.Expires = (time.Time{}); c.Body.Expires != nil {
		k.Expires = c.Body.Expires.UTC()
	}
}
