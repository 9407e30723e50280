package keys

import (
	"context"
	"errors"
	"net/http"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// Group is a group of API keys that share limits.
type Group struct {
	Name     string           `json:"name"`
	Keys     int64            `json:"keys" doc:"Number of keys; list-keys lists them"`
	Limits   []app.LimitState `json:"limits" doc:"Limits of each group, of every plan and of the policy"`
	Override *policy.Override `json:"override,omitempty" doc:"Limits of each key of the group that has no override itself"`
	Billing  limits.Billing   `json:"billing,omitzero" required:"false" doc:"When the billing months of the group begin"`
}

// GroupPath is the path parameter of a group.
type GroupPath struct {
	Name string `path:"name" maxLength:"64" example:"acme"`
}

func (ops operations) registerGroups(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "GET /groups", ID: "list-groups", Role: auth.Viewer, Summary: "List groups by name",
	}, rest.List(ops.keys.Groups))
	rest.Register(group, rest.Operation{
		Pattern: "GET /groups/{name}", ID: "get-group", Role: auth.Viewer,
		Summary: "Get a group and the current state of its limits",
		Details: "A group exists as long as it has keys.",
	}, ops.getGroup)
}

func (ops operations) getGroup(ctx context.Context, in *GroupPath) (*rest.VersionedBody[Group], error) {
	set, err := ops.keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	g, err := ops.keys.Group(ctx, set, in.Name)
	if errors.Is(err, policy.ErrNotFound) {
		return nil, rest.NewProblem(http.StatusNotFound, "No such group: no key names it.")
	}
	if err != nil {
		return nil, err
	}
	return rest.Versioned(set.Version, GroupOf(set, g)), nil
}

// GroupOf returns a group as operations answer it.
func GroupOf(set *policy.Set, g app.Group) Group {
	return Group{Name: g.Name, Keys: g.Keys, Override: g.Override, Limits: app.StatesOf(set, g.Limits),
		Billing: g.Billing}
}
