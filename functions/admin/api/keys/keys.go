// Package keys has the API's operations on keys, and on callers without an API key: one
// by one, in groups, in bulk, and as an import. Package api registers them. It must
// change keys through package app only, as the pages do.
package keys

import (
	"context"
	"strings"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

type operations struct {
	keys  *app.Registry
	calls *records.Reader
}

// Register adds the operations to a.
func Register(a *rest.API, keys *app.Registry, calls *records.Reader) {
	group, ops := a.Group("keys"), operations{keys, calls}
	ops.registerKeys(group)
	ops.registerGroups(group)
	ops.registerCallers(group)
}

func (ops operations) registerKeys(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "GET /keys", ID: "list-keys", Role: auth.Viewer,
		Summary: "List keys, by name or in another order",
		Details: "A key that exists from the first page to the last is listed exactly once, even if others " +
			"are created or deleted meanwhile.",
	}, rest.List(ops.keys.Keys))
	rest.Register(group, rest.Operation{
		Pattern: "GET /keys/{id}", ID: "get-key", Role: auth.Viewer,
		Summary: "Get a key and the current state of its limits",
	}, ops.getKey)
}

// Override is a list of limits for a key. Each takes the place of the limits of each caller
// with the same on, except, unit and parameter.
type Override struct {
	Limits []policydoc.Limit `json:"limits,omitempty" maxItems:"32" at:"override.limits" label:"Limits, one a line" hint:"Each takes the place of the caller's limits with the same on, except and unit, whatever their window; “no limit” lifts them. Blank: lifts all of the plan's." doc:"Each replaces the limits of each caller with the same on, except, unit and parameter; no limit lifts them. Without any, the override lifts the limits of the plan"`
	Until  *time.Time        `json:"until,omitempty" at:"override.until" label:"Expires" never:"never" doc:"When the override ends; if omitted, never"`
	Reason string            `json:"reason" minLength:"1" maxLength:"200" at:"override.reason" label:"Reason" sample:"Why, with a link if possible"`
}

// OverrideOf returns the override of a key or a group; nil for none.
func OverrideOf(o *policy.Override) *Override {
	if o == nil {
		return nil
	}
	return &Override{Limits: policydoc.LimitsOf(o.Limits),
		Until: schema.Given(o.Until), Reason: o.Reason}
}

// Read returns the override. Bad input is a *policy.InvalidError.
func (o *Override) Read() (*policy.Override, error) {
	list, fields := policydoc.ToLimits("limits", o.Limits)
	if o.Until != nil && !o.Until.After(time.Now()) {
		fields = append(fields, policy.FieldError{Field: "until", Message: "is " +
			o.Until.UTC().Format(
				time.RFC3339,
			) + ": must be in the future; to end an override now, delete it"})
	}
	return &policy.Override{Limits: list, Until: schema.TimeOf(o.Until),
		Reason: strings.TrimSpace(o.Reason)}, policy.Invalid(fields)
}

type (
	// Path is the path parameter of a key.
	Path struct {
		ID string `path:"id" doc:"Id of the key, never its secret" example:"aBY2A8bWP166"`
	}
)

// Get returns the key with an id. It refuses a whole secret, which would appear in the
// URL and so in logs.
func Get(ctx context.Context, keys *app.Registry, id string) (policy.Key, error) {
	if _, err := apikey.Parse(id); err == nil {
		return policy.Key{}, rest.Invalid("path.id",
			"is a whole secret, which does not belong in a URL. Its id is the first 12 characters after "+
				"the last _. Consider rotating the key")
	}
	return keys.Get(ctx, id)
}

func (ops operations) getKey(ctx context.Context, in *Path) (*rest.VersionedBody[app.ListedKey], error) {
	k, err := Get(ctx, ops.keys, in.ID)
	if err != nil {
		return nil, err
	}
	set, err := ops.keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	subjects, err := app.Subjects(ctx, ops.keys, set, []policy.Key{k})
	if err != nil {
		return nil, err
	}
	now, err := ops.keys.Listed(ctx, set, subjects)
	if err != nil {
		return nil, err
	}
	return rest.Versioned(k.Version, now[0]), nil
}
