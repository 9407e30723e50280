package command

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// Edit sets what a key is: its name, plan, tags, group, routes, billing day and expiry.
type Edit struct {
	OnKey
	Body struct {
		Name    Optional[string]              `json:"name,omitempty" nullable:"false" minLength:"1" maxLength:"100" label:"Name"`
		Tags    Optional[[]string]            `json:"tags,omitempty" maxItems:"10" most:"1000" list:"tags" label:"Tags, separated by commas" sample:"team-a, beta" doc:"Tags; null or [] for none"`
		Plan    Optional[string]              `json:"plan,omitempty" nullable:"false" minLength:"1" maxLength:"100" label:"Plan"`
		Group   Optional[string]              `json:"group,omitempty" maxLength:"64" label:"Group" sample:"none" hint:"Keys in a group share their plan's limits per group." doc:"Group; null or empty for none"`
		Billing Optional[limits.Billing]      `json:"billing,omitempty" label:"Billing day" sample:"1 (UTC)" hint:"Limits per billing month begin on it: a day of the month, such as 15 (Europe/Berlin)." doc:"When the billing months of the key begin; null for the first day of a month in UTC"`
		Expires Optional[time.Time]           `json:"expires,omitempty" label:"Expires" never:"never expires" doc:"Expiry; null for never"`
		Opens   Optional[[]policydoc.Pattern] `json:"opens,omitempty" maxItems:"20" rows:"3" label:"Open routes" sample:"GET /orders/*" hint:"One pattern a line. The plan must open them too. Leave blank for all." doc:"Routes that the key may call; null or [] for all routes of its plan"`
		OptionalReason
	}
}

// Optional is a value that a request may omit, to keep the present one.
type Optional[T any] struct {
	sent  bool
	value *T
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Optional[T]) UnmarshalJSON(text []byte) error {
	o.sent = true
	return json.Unmarshal(text, &o.value)
}

// Schema implements huma.SchemaProvider: the value or null.
func (Optional[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), false, "")
	s.Nullable = true
	return &s
}

// given returns the value for a form, which sends every field.
func (o *Optional[T]) given() any {
	if o.sent = true; o.value == nil {
		o.value = new(T)
	}
	return o.value
}

// clear makes the value null.
func (o *Optional[T]) clear() { o.value = nil }

// set sets the value at to the one that was sent, or to its zero value for null.
func (o *Optional[T]) set(to *T) {
	switch {
	case o.value != nil:
		*to = *o.value
	case o.sent:
		*to = *new(T)
	}
}

func (c *Edit) ready() error { return c.is(policy.Active, policy.Revoked) }

func (c *Edit) hides(name string) bool {
	return c.key.ID != "" && c.key.Kind != policy.APIKey && (name == "group" || name == "opens")
}

func (c *Edit) options(name string) []templates.Option {
	if name != "plan" {
		return nil
	}
	plans := wording.PlanOptions(c.set)
	if c.key.Kind != policy.APIKey {
		plans = append([]templates.Option{{Text: "none: use the caller's default plan"}}, plans...)
	}
	return plans
}

func (c *Edit) fill(context.Context, *Services) error {
	b, opens := &c.Body, policydoc.PatternsOf(c.key.Opens)
	b.Name.value, b.Tags.value, b.Plan.value = &c.key.Name, &c.key.Tags, &c.key.Plan
	b.Group.value, b.Billing.value = &c.key.Group, &c.key.Billing
	b.Expires.value, b.Opens.value = &c.key.Expires, &opens
	return nil
}

func (c *Edit) change(*policy.Set) (app.KeyChange, error) {
	var fields []policy.FieldError
	const null = "is null: give a value, or omit it to keep the present one"
	if c.Body.Name.sent && c.Body.Name.value == nil {
		fields = append(fields, policy.FieldError{Field: "name", Message: null})
	}
	if c.Body.Plan.sent && c.Body.Plan.value == nil {
		fields = append(fields, policy.FieldError{Field: "plan", Message: null})
	}
	if t := c.Body.Expires.value; t != nil && !t.Equal(c.key.Expires) {
		if message := future(*t, "to block a key now, revoke it"); message != "" {
			fields = append(fields, policy.FieldError{Field: "expires", Message: message})
		}
	}
	return app.KeyChange{Action: registry.KeyEdit, Alter: c.alter}, policy.Invalid(fields)
}

func (c *Edit) alter(k *policy.Key) {
	b := &c.Body
	b.Name.set(&k.Name)
	b.Plan.set(&k.Plan)
	b.Tags.set(&k.Tags)
	b.Group.set(&k.Group)
	b.Billing.set(&k.Billing)
	if b.Expires.set(&k.Expires); b.Expires.sent {
		k.Expires = k.Expires.UTC()
	}
	if b.Opens.sent {
		var opens []policydoc.Pattern
		b.Opens.set(&opens)
		k.Opens = policydoc.ToPatterns(opens)
	}
	k.Name = strings.TrimSpace(k.Name)
}
