package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

type (
	overrideInput struct {
		KeyPath
		IfMatch
		Body Override
	}
	endInput struct {
		KeyPath
		IfMatch
		Because
	}
	actionInput struct {
		KeyPath
		IfMatch
		Body *struct {
			Reason string `json:"reason,omitempty" maxLength:"200"`
		}
	}
	rotateInput struct {
		KeyPath
		IfMatch
		Body struct {
			Grace  string `json:"grace" maxLength:"40" example:"24h" doc:"How long the old secret stays good: 0s to 90d"`
			Reason string `json:"reason,omitempty" maxLength:"200"`
		}
	}
	banInput struct {
		KeyPath
		IfMatch
		Body struct {
			Until  time.Time `json:"until" doc:"When the ban ends"`
			Reason string    `json:"reason" minLength:"1" maxLength:"200"`
		}
	}
)

func (in *actionInput) reason() string {
	if in.Body == nil {
		return ""
	}
	return in.Body.Reason
}

func (a *api) registerKeyActions() {
	const group = "keys"
	register(a, operation{
		pattern: "PUT /keys/{id}/override", id: "override-key",
		summary: "Replace the limits of the key's plan", role: auth.Editor, group: group,
		details: "Acts on the next check and keeps what was counted.",
	}, a.putOverride)
	register(a, operation{
		pattern: "DELETE /keys/{id}/override", id: "end-override",
		summary: "End the override: the plan is back in force", role: auth.Editor,
		group: group,
	}, a.endOverride)
	for _, action := range []struct {
		name, summary string
		do            func(context.Context, *actionInput) (*keyOutput, error)
	}{
		{"revoke", "Refuse the key from the next check on; it can be taken back", a.revoke},
		{"unrevoke", "Let a revoked key call again", a.unrevoke},
		{"unban", "Lift a ban, manual or automatic", a.unban},
		{"reset", "Forget everything that was counted", a.reset},
	} {
		register(a, operation{
			pattern: "POST /keys/{id}/" + action.name, id: action.name + "-key", summary: action.summary,
			role: auth.Editor, group: group,
		}, action.do)
	}
	register(a, operation{
		pattern: "POST /keys/{id}/ban", id: "ban-key", summary: "Deny every call until a time",
		role: auth.Editor, group: group,
	}, a.ban)
	register(a, operation{
		pattern: "POST /keys/{id}/rotate", id: "rotate-key", summary: "Rotate secret", role: auth.Editor,
		group: group, status: http.StatusCreated,
		details: "Plan, counts and history stay. The new secret stands in the answer and cannot be had " +
			"again. " +
			"If-Match keeps a repeated request from rotating twice.",
	}, a.rotate)
}

// active returns a key that can be changed in the ways of one that may call.
func (a *api) active(ctx context.Context, id string) (policy.Key, error) {
	k, err := a.key(ctx, id)
	if err == nil && k.Status != policy.Active {
		err = problem(http.StatusConflict,
			"The key is "+string(k.Status)+": nothing of the kind can be done with it as it is.")
	}
	return k, err
}

func (a *api) putOverride(ctx context.Context, in *overrideInput) (*keyOutput, error) {
	if err := in.missing(); err != nil {
		return nil, err
	}
	var wrong details
	o := wrong.override("", &in.Body)
	if err := wrong.err(); err != nil {
		return nil, err
	}
	k, err := a.active(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return keyAnswer(a.setOverride(ctx, k, in.IfMatch, o, o.Reason))
}

func (a *api) setOverride(ctx context.Context, k policy.Key, m IfMatch, o *policy.Override,
	reason string) (policy.Key, error) {
	saved, err := a.onKey(k, m, func(version int64) (policy.Key, error) {
		return a.Keys.SetOverride(ctx, k.ID, version, o, edit(ctx, reason))
	})
	var invalid *policy.InvalidError
	if errors.As(err, &invalid) {
		return saved, unprocessable(inBody(invalid, "override.", "")...)
	}
	return saved, err
}

func (a *api) endOverride(ctx context.Context, in *endInput) (*keyOutput, error) {
	k, err := a.active(ctx, in.ID)
	switch {
	case err != nil:
		return nil, err
	case k.Override == nil:
		return nil, problem(http.StatusNotFound, "The key has no override.")
	}
	return keyAnswer(a.setOverride(ctx, k, in.IfMatch, nil, in.Reason))
}

func (a *api) revoke(ctx context.Context, in *actionInput) (*keyOutput, error) {
	return a.update(ctx, in, policy.Active, audit.KeyRevoke, func(k *policy.Key) {
		k.Status = policy.Revoked
	})
}

func (a *api) unrevoke(ctx context.Context, in *actionInput) (*keyOutput, error) {
	return a.update(ctx, in, policy.Revoked, audit.KeyUnrevoke, func(k *policy.Key) {
		k.Status = policy.Active
	})
}

func (a *api) unban(ctx context.Context, in *actionInput) (*keyOutput, error) {
	k, err := a.active(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return keyAnswer(a.onKey(k, in.IfMatch, func(version int64) (policy.Key, error) {
		return a.Keys.Unban(ctx, k.ID, version, edit(ctx, in.reason()))
	}))
}

// update changes a key that is in a state.
func (a *api) update(ctx context.Context, in *actionInput, status policy.Status, action string,
	change func(*policy.Key)) (*keyOutput, error) {
	k, err := a.key(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if k.Status != status {
		return nil, problem(http.StatusConflict,
			"The key is "+string(k.Status)+": nothing of the kind can be done with it as it is.")
	}
	return keyAnswer(a.onKey(k, in.IfMatch, func(version int64) (policy.Key, error) {
		return a.Keys.Update(ctx, k.ID, version, action, edit(ctx, in.reason()), change)
	}))
}

func (a *api) reset(ctx context.Context, in *actionInput) (*keyOutput, error) {
	k, err := a.active(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if _, err := in.version(k.Version); err != nil {
		return nil, err
	}
	err = a.overtaken(ctx, k, in.IfMatch, func() error {
		return a.Keys.Reset(ctx, k.ID, edit(ctx, in.reason()))
	})
	if err != nil {
		return nil, err
	}
	return keyAnswer(a.Keys.Get(ctx, k.ID))
}

func (a *api) ban(ctx context.Context, in *banInput) (*keyOutput, error) {
	if !in.Body.Until.After(time.Now()) {
		return nil, unprocessable(Detail{Location: "body.until",
			Message: "must be in the future; revoke a key to shut it out for good"})
	}
	k, err := a.active(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return keyAnswer(a.onKey(k, in.IfMatch, func(version int64) (policy.Key, error) {
		reason := strings.TrimSpace(in.Body.Reason)
		return a.Keys.Update(ctx, k.ID, version, audit.KeyBan, edit(ctx, reason), func(k *policy.Key) {
			k.Banned = in.Body.Until.UTC()
		})
	}))
}

func (a *api) rotate(ctx context.Context, in *rotateInput) (*secretOutput, error) {
	if err := in.missing(); err != nil {
		return nil, err
	}
	grace := time.Duration(0)
	if in.Body.Grace != "0s" && in.Body.Grace != "0" {
		var err error
		if grace, err = limiter.ParseWindow(in.Body.Grace); err != nil {
			return nil, unprocessable(Detail{Location: "body.grace",
				Message: "must be 0s to 90d, such as 24h"})
		}
	}
	k, err := a.active(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if k.Kind != policy.APIKey {
		return nil, problem(http.StatusConflict, "Others vouch for this caller: it has no secret of ours.")
	}
	version, err := in.version(k.Version)
	if err != nil {
		return nil, err
	}
	k, secret, err := a.Keys.Rotate(ctx, k.ID, version, grace, edit(ctx, in.Body.Reason))
	if errors.Is(err, policy.ErrConflict) {
		return nil, stale(k.Version, &version)
	}
	if err != nil {
		return nil, err
	}
	return made(k, secret), nil
}

func isUnreadable(err error) bool { return errors.Is(err, policy.ErrUnreadable) }
