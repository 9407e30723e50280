package keys

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

type (
	overrideInput struct {
		Path
		rest.IfMatch
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
		rest.IfMatch
		Body struct {
			Grace    string `json:"grace" maxLength:"40" example:"24h" doc:"How long the old secret stays good: 0s to 90d"`
			EndGrace bool   `json:"endGrace,omitempty" doc:"End the grace of the secret from before the last rotation: without, 409 while that one is good"`
			Reason   string `json:"reason,omitempty" maxLength:"200"`
		}
	}
	banInput struct {
		Path
		rest.IfMatch
		Body struct {
			Until  time.Time `json:"until" doc:"When the ban ends"`
			Reason string    `json:"reason" minLength:"1" maxLength:"200"`
		}
	}
)

func (ops operations) registerKeyActions(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "PUT /keys/{id}/override", ID: "override-key", Role: auth.Editor,
		Summary: "Replace the limits of the key's plan",
		Details: "Acts on the next check and keeps what was counted.",
	}, ops.putOverride)
	rest.Register(group, rest.Operation{
		Pattern: "DELETE /keys/{id}/override", ID: "end-override", Role: auth.Editor,
		Summary: "End the override: the plan is back in force",
	}, ops.endOverride)
	for _, action := range []struct {
		name, summary string
	}{
		{app.Revoke, "Refuse the key from the next check on; it can be taken back"},
		{app.Unrevoke, "Let a revoked key call again"},
		{app.Unban, "Lift a ban, manual or automatic"},
		{app.Reset, "Forget everything that was counted"},
		{app.ExpireSecret, "Expire the secret from before the last rotation now"},
	} {
		rest.Register(group, rest.Operation{
			Pattern: "POST /keys/{id}/" + action.name, ID: action.name + "-key", Role: auth.Editor,
			Summary: action.summary,
		}, ops.act(action.name))
	}
	rest.Register(group, rest.Operation{
		Pattern: "POST /keys/{id}/ban", ID: "ban-key", Role: auth.Editor,
		Summary: "Deny every call until a time",
	}, ops.ban)
	rest.Register(group, rest.Operation{
		Pattern: "POST /keys/{id}/rotate", ID: "rotate-key", Role: auth.Editor, Status: http.StatusCreated,
		Summary: "Rotate secret",
		Details: "Plan, counts and history stay. The new secret stands in the answer and cannot be had " +
			"again. While the secret from before the last rotation is good, this needs endGrace, since a " +
			"key has two secrets at most. If-Match keeps a repeated request from rotating twice.",
	}, ops.rotate)
}

// fitting returns a key that can be changed so.
func (ops operations) fitting(ctx context.Context, id string, c app.KeyChange) (policy.Key, error) {
	k, err := Get(ctx, ops.keys, id)
	if c.Do == app.Delete && errors.Is(err, policy.ErrUnreadable) {
		return k, nil
	}
	switch {
	case err != nil:
		return k, err
	case !c.Fits(k.Status):
		return k, rest.NewProblem(http.StatusConflict,
			"The key is "+string(k.Status)+": nothing of the kind can be done with it as it is.")
	case c.Do == app.EndOverride && k.Override == nil:
		return k, rest.NewProblem(http.StatusNotFound, "The key has no override.")
	}
	return k, nil
}

// change changes a key as it was in the version that the caller names.
func (ops operations) change(
	ctx context.Context, id string, m rest.IfMatch, c app.KeyChange, reason string,
) (*keyOutput, error) {
	k, err := ops.fitting(ctx, id, c)
	if err != nil {
		return nil, err
	}
	version, err := m.Version(k.Version)
	if err != nil {
		return nil, err
	}
	base := app.Base{Version: version, Newer: m.Any()}
	k, err = ops.keys.Change(ctx, id, base, c, app.NewEdit(ctx, reason))
	if errors.Is(err, policy.ErrConflict) && !base.Newer {
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
	change := app.KeyChange{Do: app.Override, Override: o}
	out, err := ops.change(ctx, in.ID, in.IfMatch, change, o.Reason)
	var invalid *policy.InvalidError
	if errors.As(err, &invalid) {
		return nil, rest.Unprocessable(schema.InBody(invalid.Fields, "override.")...)
	}
	return out, err
}

func (ops operations) endOverride(ctx context.Context, in *endInput) (*keyOutput, error) {
	return ops.change(ctx, in.ID, in.IfMatch, app.KeyChange{Do: app.EndOverride}, in.Reason)
}

// act makes a change that needs no more than its name.
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
		if grace, err = limiter.ParseWindow(in.Body.Grace); err != nil {
			return nil, rest.Invalid("body.grace", "must be 0s to 90d, such as 24h")
		}
	}
	k, err := ops.fitting(ctx, in.ID, app.KeyChange{Do: app.Rotate})
	if err != nil {
		return nil, err
	}
	if k.Kind != policy.APIKey {
		return nil, rest.NewProblem(http.StatusConflict,
			"Others vouch for this caller: it has no secret of ours.")
	}
	version, err := in.Version(k.Version)
	if err != nil {
		return nil, err
	}
	if k.Version == version && k.Grace.After(time.Now()) && !in.Body.EndGrace {
		return nil, rest.NewProblem(http.StatusConflict,
			"The secret from before the last rotation is good until "+
				k.Grace.UTC().Format(time.RFC3339)+". Send endGrace true to end it now.")
	}
	k, secret, err := ops.keys.Rotate(ctx, k.ID, version, grace, app.NewEdit(ctx, in.Body.Reason))
	if errors.Is(err, policy.ErrConflict) {
		return nil, rest.Stale(k.Version, &version)
	}
	if err != nil {
		return nil, err
	}
	return made(k, secret), nil
}
