package keys

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

type (
	overrideInput struct {
		Path
		rest.IfMatch
		rest.AcceptQuery
		Body Override
	}
	endInput struct {
		Path
		rest.IfMatch
		rest.ReasonQuery
	}
	actionInput struct {
		Path
		rest.IfMatch
		rest.OptionalReason
	}
	rotateInput struct {
		Path
		Repeatable
		rest.IfMatch
		Body struct {
			Grace    string `json:"grace" maxLength:"40" example:"24h" doc:"How long the old secret stays valid: 0s to 90d"`
			EndGrace bool   `json:"endGrace,omitempty" doc:"Expires the previous secret now; without it, the request gets 409 while that secret is valid"`
			Reason   string `json:"reason,omitempty" maxLength:"200"`
		}
	}
	banInput struct {
		Path
		rest.IfMatch
		Body struct {
			rest.WithReason
			Until time.Time `json:"until" doc:"When the ban ends"`
		}
	}
)

func (ops operations) registerKeyActions(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "PUT /keys/{id}/override", ID: "override-key", Role: auth.Editor,
		Summary: "Override the limits of the key's plan",
		Details: "Takes effect on the next check and keeps the counts.",
	}, ops.putOverride)
	rest.Register(group, rest.Operation{
		Pattern: "DELETE /keys/{id}/override", ID: "end-override", Role: auth.Editor,
		Summary: "Remove the override and apply the plan again",
	}, ops.endOverride)
	for _, action := range []struct {
		name, summary string
	}{
		{app.Revoke, "Revoke a key from the next check on; unrevoke restores it"},
		{app.Unrevoke, "Restore a revoked key"},
		{app.Unban, "Remove a ban, manual or automatic"},
		{app.Reset, "Reset the counts of a key"},
		{app.ExpireSecret, "Expire the previous secret now"},
	} {
		rest.Register(group, rest.Operation{
			Pattern: "POST /keys/{id}/" + action.name, ID: action.name + "-key", Role: auth.Editor,
			Summary: action.summary,
		}, ops.act(action.name))
	}
	rest.Register(group, rest.Operation{
		Pattern: "POST /keys/{id}/ban", ID: "ban-key", Role: auth.Editor,
		Summary: "Ban a key until a time",
	}, ops.ban)
	rest.Register(group, rest.Operation{
		Pattern: "POST /keys/{id}/rotate", ID: "rotate-key", Role: auth.Editor, Status: http.StatusCreated,
		Summary: "Rotate the secret of a key",
		Details: "Keeps plan, counts and history. Only this response has the new secret. A key has at most " +
			"two secrets, so this needs endGrace while the previous secret is valid. If-Match keeps a " +
			"repeated request from rotating twice; with Idempotency-Key it gets the same secret.",
	}, ops.rotate)
}

// changeable returns a key if its status permits the change. Otherwise its error is a
// problem.
func (ops operations) changeable(ctx context.Context, id string, c app.KeyChange) (policy.Key, error) {
	k, err := Get(ctx, ops.keys, id)
	if c.Do == app.Delete && errors.Is(err, policy.ErrUnreadable) {
		return k, nil
	}
	switch {
	case err != nil:
		return k, err
	case !c.Fits(k.Status):
		return k, rest.NewProblem(http.StatusConflict,
			"The key is "+string(k.Status)+": this change is not possible.")
	case c.Do == app.EndOverride && k.Override == nil:
		return k, rest.NewProblem(http.StatusNotFound, "The key has no override.")
	}
	return k, nil
}

// change changes a key if it still has the version in If-Match.
func (ops operations) change(
	ctx context.Context, id string, m rest.IfMatch, c app.KeyChange, reason string,
) (*keyOutput, error) {
	k, err := ops.changeable(ctx, id, c)
	if err != nil {
		return nil, err
	}
	version, err := m.Version(k.Version)
	if err != nil {
		return nil, err
	}
	if m.Any() {
		version = registry.AnyVersion
	}
	k, err = ops.keys.Change(ctx, id, version, c, app.NewEdit(ctx, reason))
	if errors.Is(err, policy.ErrConflict) {
		err = rest.Stale(k.Version, &version)
	}
	if err != nil {
		return nil, err
	}
	return rest.Versioned(k.Version, keyOf(k)), nil
}

func (ops operations) putOverride(ctx context.Context, in *overrideInput) (*keyOutput, error) {
	if err := in.Missing(); err != nil {
		return nil, err
	}
	var details rest.Details
	o := in.Body.read("", &details)
	if err := details.Err(); err != nil {
		return nil, err
	}
	change := app.KeyChange{Do: app.Override, Override: o, Accepts: in.Accepts}
	out, err := ops.change(ctx, in.ID, in.IfMatch, change, o.Reason)
	return out, overrideProblem(err)
}

// overrideProblem returns the problem of an invalid override, which is the whole body of
// its request.
func overrideProblem(err error) error {
	var invalid *policy.InvalidError
	if errors.As(err, &invalid) {
		return rest.Unprocessable(schema.InBody(invalid.Fields, "override.")...)
	}
	return err
}

func (ops operations) endOverride(ctx context.Context, in *endInput) (*keyOutput, error) {
	return ops.change(ctx, in.ID, in.IfMatch, app.KeyChange{Do: app.EndOverride}, in.Reason)
}

// act returns the handler of a change that has no parameters.
func (ops operations) act(do string) func(context.Context, *actionInput) (*keyOutput, error) {
	return func(ctx context.Context, in *actionInput) (*keyOutput, error) {
		return ops.change(ctx, in.ID, in.IfMatch, app.KeyChange{Do: do}, in.Reason())
	}
}

func (ops operations) ban(ctx context.Context, in *banInput) (*keyOutput, error) {
	change := app.KeyChange{Do: app.Ban, Until: in.Body.Until}
	return ops.change(ctx, in.ID, in.IfMatch, change, in.Body.Reason)
}

func (ops operations) rotate(ctx context.Context, in *rotateInput) (*secretOutput, error) {
	if err := in.Missing(); err != nil {
		return nil, err
	}
	grace := time.Duration(0)
	if in.Body.Grace != "0s" && in.Body.Grace != "0" {
		var err error
		if grace, err = limits.ParseWindow(in.Body.Grace); err != nil {
			return nil, rest.Invalid("body.grace", "must be 0s to 90d, such as 24h")
		}
	}
	edit := app.NewEdit(ctx, in.Body.Reason)
	edit.Repeat = in.repeat(ctx, in.Body)
	k, secret, err := ops.keys.Rotated(ctx, in.ID, edit)
	if !errors.Is(err, policy.ErrNotFound) {
		return withSecret(k, secret), err
	}
	k, err = ops.changeable(ctx, in.ID, app.KeyChange{Do: app.Rotate})
	if err != nil {
		return nil, err
	}
	if k.Kind != policy.APIKey {
		return nil, rest.NewProblem(http.StatusConflict,
			"This caller has no API key, so it has no secret to rotate.")
	}
	version, err := in.Version(k.Version)
	if err != nil {
		return nil, err
	}
	if k.Version == version && k.Grace.After(time.Now()) && !in.Body.EndGrace {
		return nil, rest.NewProblem(http.StatusConflict,
			"The previous secret is valid until "+k.Grace.UTC().Format(time.RFC3339)+
				". Send endGrace true to expire it now.")
	}
	k, secret, err = ops.keys.Rotate(ctx, k.ID, version, grace, edit)
	if errors.Is(err, policy.ErrConflict) {
		return nil, rest.Stale(k.Version, &version)
	}
	if err != nil {
		return nil, err
	}
	return withSecret(k, secret), nil
}

type (
	patchKeyInput struct {
		Path
		rest.IfMatch
		Body struct {
			Name    nullable[string]              `json:"name,omitempty" nullable:"false" minLength:"1" maxLength:"100"`
			Plan    nullable[string]              `json:"plan,omitempty" nullable:"false" minLength:"1" maxLength:"100"`
			Tags    nullable[[]string]            `json:"tags,omitempty" maxItems:"10" doc:"Tags; null or [] for none"`
			Group   nullable[string]              `json:"group,omitempty" maxLength:"64" doc:"Group; null or empty for none"`
			Opens   nullable[[]policydoc.Pattern] `json:"opens,omitempty" maxItems:"20" doc:"Routes that the key may call; null or [] for all routes of its plan"`
			Expires nullable[time.Time]           `json:"expires,omitempty" doc:"Expiry; null for never"`
			Billing nullable[limits.Billing]      `json:"billing,omitempty" doc:"When the billing months of the key begin; null for the first day of a month in UTC"`
			Reason  string                        `json:"reason,omitempty" maxLength:"200"`
		}
	}
	deleteInput struct {
		Path
		rest.IfMatch
		rest.ReasonQuery
	}
)

// nullable distinguishes an absent value from null.
type nullable[T any] struct {
	sent  bool
	value *T
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *nullable[T]) UnmarshalJSON(text []byte) error {
	n.sent = true
	return json.Unmarshal(text, &n.value)
}

// set sets the value at to the one that was sent, or to its zero value for null.
func (n *nullable[T]) set(to *T) {
	switch {
	case n.value != nil:
		*to = *n.value
	case n.sent:
		*to = *new(T)
	}
}

// required returns the error of null; nil without one.
func (n *nullable[T]) required() error {
	if n.sent && n.value == nil {
		return errors.New("is null: give a value, or omit it to keep the present one")
	}
	return nil
}

// Schema implements huma.SchemaProvider: the value or null.
func (nullable[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), false, "")
	s.Nullable = true
	return &s
}

func (ops operations) patchKey(ctx context.Context, in *patchKeyInput) (*keyOutput, error) {
	var details rest.Details
	details.Add("name", in.Body.Name.required())
	details.Add("plan", in.Body.Plan.required())
	if err := cmp.Or(in.Missing(), details.Err(), expiryProblem(in.Body.Expires.value)); err != nil {
		return nil, err
	}
	change := app.KeyChange{Do: app.Details, Details: in.apply}
	return ops.change(ctx, in.ID, in.IfMatch, change, in.Body.Reason)
}

func (in *patchKeyInput) apply(k *policy.Key) {
	b := &in.Body
	b.Name.set(&k.Name)
	b.Plan.set(&k.Plan)
	b.Tags.set(&k.Tags)
	b.Group.set(&k.Group)
	b.Billing.set(&k.Billing)
	if b.Opens.sent {
		var opens []policydoc.Pattern
		b.Opens.set(&opens)
		k.Opens = policydoc.ToPatterns(opens)
	}
	if b.Expires.sent {
		k.Expires = schema.TimeOf(b.Expires.value)
	}
}

func (ops operations) deleteKey(ctx context.Context, in *deleteInput) (*rest.None, error) {
	_, err := ops.change(ctx, in.ID, in.IfMatch, app.KeyChange{Do: app.Delete}, in.Reason)
	return nil, err
}
