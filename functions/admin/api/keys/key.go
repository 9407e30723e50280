package keys

import (
	"context"
	"strings"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/apikey"
	"tidegate/internal/policy"
)

// Key is a key without its secret, or the override and the ban of a caller that others
// vouch for.
type Key struct {
	ID       string              `json:"id"`
	Kind     string              `json:"kind" enum:"key,token,address"`
	Name     string              `json:"name"`
	Env      string              `json:"env,omitempty"`
	Foreign  bool                `json:"foreign,omitempty" doc:"Another system made its value"`
	Tags     []string            `json:"tags,omitempty"`
	Plan     string              `json:"plan"`
	Group    string              `json:"group,omitempty" doc:"That it shares the plan's limits per group with"`
	Status   string              `json:"status" enum:"active,revoked,unreadable"`
	Override *Override           `json:"override,omitempty"`
	Allow    []policydoc.Pattern `json:"allow,omitempty" doc:"Routes that the key may call, of those that its plan opens; left out, all of them"`
	Expires  *time.Time          `json:"expires,omitempty"`
	Banned   *time.Time          `json:"bannedUntil,omitempty" doc:"Until when it is banned; a ban by the policy is told where a key's states are"`
	Grace    *time.Time          `json:"graceUntil,omitempty" doc:"Until when the secret before the last rotation is good"`
	Version  int64               `json:"version"`
	Created  *time.Time          `json:"created,omitempty"`
	Updated  *time.Time          `json:"updated,omitempty"`
}

// Override replaces the limits of a key's plan.
type Override struct {
	Limits []policydoc.Limit `json:"limits,omitempty" maxItems:"8" doc:"1 to 8; none with mode off"`
	Mode   string            `json:"mode,omitempty" enum:"enforce,shadow,off"`
	Until  *time.Time        `json:"until,omitempty" doc:"When the plan is back in force; never when it is left out"`
	Reason string            `json:"reason" minLength:"1" maxLength:"200"`
}

func keyOf(k policy.Key) Key {
	return Key{
		ID: k.ID, Kind: string(k.Kind), Name: k.Name, Env: k.Env, Foreign: k.Foreign,
		Tags: k.Tags, Plan: k.Plan, Group: k.Group, Status: string(k.Status),
		Override: overrideOf(k.Override), Allow: policydoc.PatternsOf(k.Allow),
		Expires: schema.Given(k.Expires), Banned: schema.Given(k.Banned), Grace: schema.Given(k.Grace),
		Version: k.Version, Created: schema.Given(k.Created), Updated: schema.Given(k.Updated),
	}
}

func overrideOf(o *policy.Override) *Override {
	if o == nil {
		return nil
	}
	return &Override{Limits: policydoc.LimitsOf(o.Limits), Mode: string(o.Mode),
		Until: schema.Given(o.Until), Reason: o.Reason}
}

// read reads the override, which stands at a place of the body.
func (o *Override) read(at string, details *rest.Details) *policy.Override {
	if o == nil {
		return nil
	}
	limits, unread := policydoc.ToLimits(at+"limits", o.Limits)
	*details = append(*details, schema.InBody(unread, "")...)
	return &policy.Override{Limits: limits, Mode: policy.Mode(o.Mode), Until: schema.TimeOf(o.Until),
		Reason: strings.TrimSpace(o.Reason)}
}

type (
	// Path names a key.
	Path struct {
		ID string `path:"id" doc:"Id of the key, never its secret" example:"aBY2A8bWP166"`
	}
	keyOutput = rest.VersionedBody[Key]
)

// Get returns the key with this id. A whole secret is refused: it would stand in the
// address, where logs find it.
func Get(ctx context.Context, keys *app.Registry, id string) (policy.Key, error) {
	if _, err := apikey.Parse(id); err == nil {
		return policy.Key{}, rest.Invalid("path.id",
			"is a whole secret, which belongs in no address: the first 12 characters behind the last _ "+
				"are its id. Consider rotating it")
	}
	return keys.Get(ctx, id)
}

func (ops operations) getKey(ctx context.Context, in *Path) (*rest.VersionedBody[KeyNow], error) {
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
	now, err := ops.keysNow(ctx, subjects)
	if err != nil {
		return nil, err
	}
	return rest.Versioned(k.Version, now[0]), nil
}
