package keys

import (
	"context"
	"net/http"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/policy"
)

// Group is a group of API keys that share limits.
type Group struct {
	Name   string        `json:"name"`
	Keys   int64         `json:"keys" doc:"Number of keys; list-keys lists them"`
	Now    time.Time     `json:"now" doc:"Time of the limits, by Valkey's clock"`
	Limits []GroupLimits `json:"limits" doc:"Limits of each plan that has limits per group; none with mode off"`
}

// GroupLimits is the state of one plan's limits on a group.
type GroupLimits struct {
	Plan    string          `json:"plan"`
	Mode    string          `json:"mode" enum:"enforce,shadow"`
	Windows []schema.Window `json:"windows"`
}

type (
	// GroupPath is the path parameter of a group.
	GroupPath struct {
		Name string `path:"name" maxLength:"64" example:"acme"`
	}
	groupResetInput struct {
		GroupPath
		rest.OptionalReason
	}
)

func (ops operations) registerGroups(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "GET /groups/{name}", ID: "get-group", Role: auth.Viewer,
		Summary: "Get a group and the current state of its limits",
		Details: "A group exists as long as it has keys.",
	}, ops.getGroup)
	rest.Register(group, rest.Operation{
		Pattern: "POST /groups/{name}/reset", ID: "reset-group", Role: auth.Editor,
		Status: http.StatusNoContent, Summary: "Reset the counts of a group",
		Details: "Keeps the counts of its keys.",
	}, ops.resetGroup)
}

func (ops operations) getGroup(ctx context.Context, in *GroupPath) (*rest.Body[Group], error) {
	set, err := ops.keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	g, err := ops.keys.Group(ctx, set, in.Name)
	if err != nil {
		return nil, err
	}
	out := Group{Name: g.Name, Keys: g.Keys, Now: g.Now.UTC(), Limits: make([]GroupLimits, len(g.Limits))}
	for i, l := range g.Limits {
		mode := policy.OrEnforce(l.Plan.Mode)
		out.Limits[i] = GroupLimits{l.Plan.Name, string(mode), schema.WindowsOf(l.Now)}
	}
	return rest.Answer(out), nil
}

func (ops operations) resetGroup(ctx context.Context, in *groupResetInput) (*rest.None, error) {
	return nil, ops.keys.ResetGroup(ctx, in.Name, app.NewEdit(ctx, in.Reason()))
}
