// Package keys has the API's operations on keys, and on callers without an API key: one
// by one, in groups, in bulk, and as an import. Package api registers them. It must
// change keys through package app only, as the pages do.
package keys

import (
	"context"
	"errors"
	"strings"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/list"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/apikey"
	"tidegate/internal/limits"
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
	}, rest.List(ops.listKeys))
	rest.Register(group, rest.Operation{
		Pattern: "GET /keys/{id}", ID: "get-key", Role: auth.Viewer,
		Summary: "Get a key and the current state of its limits",
	}, ops.getKey)
}

// Key is a key without its secret, or the record of a caller without an API key.
type Key struct {
	ID       string              `json:"id"`
	Kind     string              `json:"kind" enum:"key,token,address"`
	Name     string              `json:"name"`
	Env      string              `json:"env,omitempty"`
	Foreign  bool                `json:"foreign,omitempty" doc:"The key's value comes from another system"`
	Tags     []string            `json:"tags,omitempty"`
	Plan     string              `json:"plan"`
	Group    string              `json:"group,omitempty" doc:"Group whose keys share the limits of each group"`
	Status   string              `json:"status" enum:"active,revoked,unreadable"`
	Override *Override           `json:"override,omitempty"`
	Opens    []policydoc.Pattern `json:"opens,omitempty" doc:"Routes that the key may call, among those of its plan; if omitted, all of them"`
	Expires  *time.Time          `json:"expires,omitempty"`
	Banned   *time.Time          `json:"bannedUntil,omitempty" doc:"End of the ban"`
	Grace    *time.Time          `json:"graceUntil,omitempty" doc:"Until when the previous secret is valid"`
	Billing  *limits.Billing     `json:"billing,omitempty" doc:"When the billing months of the key begin"`
	Version  int64               `json:"version"`
	Created  *time.Time          `json:"created,omitempty"`
	Updated  *time.Time          `json:"updated,omitempty"`
}

// Override is a list of limits for a key. Each takes the place of the limits of each caller
// with the same on, except, unit and parameter.
type Override struct {
	Limits []policydoc.Limit `json:"limits,omitempty" maxItems:"32" at:"override.limits" label:"Limits, one a line" hint:"Each takes the place of the caller's limits with the same on, except and unit, whatever their window; “no limit” lifts them. Blank: lifts all of the plan's." doc:"Each replaces the limits of each caller with the same on, except, unit and parameter; no limit lifts them. Without any, the override lifts the limits of the plan"`
	Until  *time.Time        `json:"until,omitempty" at:"override.until" label:"Expires" never:"never" doc:"When the override ends; if omitted, never"`
	Reason string            `json:"reason" minLength:"1" maxLength:"200" at:"override.reason" label:"Reason" sample:"Why, with a link if possible"`
}

// KeyOf returns a key as operations answer it.
func KeyOf(k policy.Key) Key {
	return Key{
		ID: k.ID, Kind: string(k.Kind), Name: k.Name, Env: k.Env, Foreign: k.Foreign,
		Tags: k.Tags, Plan: k.Plan, Group: k.Group, Status: string(k.Status),
		Override: OverrideOf(k.Override), Opens: policydoc.PatternsOf(k.Opens),
		Expires: schema.Given(k.Expires), Banned: schema.Given(k.Banned), Grace: schema.Given(k.Grace),
		Billing: billingOf(k.Billing), Version: k.Version, Created: schema.Given(k.Created),
		Updated: schema.Given(k.Updated),
	}
}

// billingOf returns nil for the default.
func billingOf(b limits.Billing) *limits.Billing {
	if b == (limits.Billing{}) {
		return nil
	}
	return &b
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

type (
	keysInput struct {
		Prefix string `query:"prefix" maxLength:"100" doc:"Only names with this prefix; case is ignored"`
		Plan   string `query:"plan" maxLength:"400" doc:"Only keys of the plan with this name"`
		Group  string `query:"group" maxLength:"64" doc:"Only keys of this group"`
		Tag    string `query:"tag" maxLength:"50" doc:"Only keys that have this tag"`
		State  string `query:"state" enum:"overridden,blocked,near,shadow,banned,expiring,revoked,unreadable" doc:"Only keys in this state; banned, blocked and near are not sorted by name"`
		Order  string `query:"order" enum:"name,closest,busiest,denied,today" default:"name" doc:"closest: the keys whose limits, with those of groups, are used up most, on one page. busiest and denied: the keys among the 64 callers with the most calls, or with the most calls that were denied, refused, or would be denied in shadow, of the last hour, on one page. today: keys that called on the present day in UTC, about the busiest first"`
		list.Paging
	}
)

// filter returns the filter of a request. at is the location of plan, for its error.
func filter(set *policy.Set, prefix, plan, state, at string) (app.KeyFilter, error) {
	f := app.KeyFilter{Prefix: prefix, State: app.State(state)}
	if plan == "" {
		return f, nil
	}
	p, known := set.Plan(plan)
	if !known {
		return f, rest.Invalid(at, "no plan has this name")
	}
	f.Plan = p.Number
	return f, nil
}

func (ops operations) listKeys(ctx context.Context, in *keysInput) (list.Page[app.ListedKey], error) {
	set, err := ops.keys.Set(ctx)
	if err != nil {
		return list.Page[app.ListedKey]{}, err
	}
	f, err := filter(set, in.Prefix, in.Plan, in.State, "query.plan")
	if err != nil {
		return list.Page[app.ListedKey]{}, err
	}
	f.Tag, f.Group = in.Tag, in.Group
	order := app.Order(in.Order)
	if in.Order == "name" {
		order = app.ByName
	}
	found, err := ops.keys.Keys(ctx, set, f, order, in.Paging)
	return found, cursorProblem(err)
}

// cursorProblem maps the error of an invalid cursor to a problem of query.after.
func cursorProblem(err error) error {
	var invalid *policy.InvalidError
	if errors.As(err, &invalid) {
		return rest.Invalid("query.after", invalid.Fields[0].Message)
	}
	return err
}
