package api

import (
	"context"
	"net/http"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/policy"
)

// Group is API keys that share limits.
type Group struct {
	Name   string        `json:"name"`
	Keys   int64         `json:"keys" doc:"How many there are; list-keys lists them"`
	Now    time.Time     `json:"now" doc:"Instant of the limits, on the store's clock"`
	Limits []GroupLimits `json:"limits" doc:"Of each plan that has limits on groups; none with mode off"`
}

// GroupLimits are one plan's limits on a group.
type GroupLimits struct {
	Plan    string   `json:"plan"`
	Mode    string   `json:"mode" enum:"enforce,shadow"`
	Windows []Window `json:"windows"`
}

type (
	// GroupPath names a group.
	GroupPath struct {
		Name string `path:"name" maxLength:"64" example:"acme"`
	}
	groupOutput     struct{ Body Group }
	groupResetInput struct {
		GroupPath
		Body *struct {
			Reason string `json:"reason,omitempty" maxLength:"200"`
		}
	}
)

func (a *api) registerGroups() {
	const group = "keys"
	register(a, operation{
		pattern: "GET /groups/{name}", id: "get-group", summary: "Get a group and how its limits stand",
		role: auth.Viewer, group: group,
		details: "A group exists as long as keys are in it.",
	}, a.getGroup)
	register(a, operation{
		pattern: "POST /groups/{name}/reset", id: "reset-group",
		summary: "Forget what was counted for a group", role: auth.Editor, group: group,
		status:  http.StatusNoContent,
		details: "The counts of its keys stay.",
	}, a.resetGroup)
}

func (a *api) getGroup(ctx context.Context, in *GroupPath) (*groupOutput, error) {
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	g, err := a.Keys.Group(ctx, set, in.Name)
	if err != nil {
		return nil, err
	}
	out := Group{Name: g.Name, Keys: g.Keys, Now: g.Now.UTC(), Limits: make([]GroupLimits, len(g.Limits))}
	for i, l := range g.Limits {
		out.Limits[i] = GroupLimits{l.Plan.Name, string(policy.OrEnforce(l.Plan.Mode)), windowsOf(l.Now)}
	}
	return &groupOutput{out}, nil
}

func (a *api) resetGroup(ctx context.Context, in *groupResetInput) (*none, error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	return nil, a.Keys.ResetGroup(ctx, in.Name, app.NewEdit(ctx, reason))
}
