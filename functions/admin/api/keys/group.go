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
	Override *Override        `json:"override,omitempty" doc:"Limits of each key of the group that has no override itself"`
	Billing  *limits.Billing  `json:"billing,omitempty" doc:"When the billing months of the group begin"`
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
	groupOverrideInput struct {
		GroupPath
		rest.AcceptQuery
		Body Override
	}
	groupBillingInput struct {
		GroupPath
		Body struct {
			limits.Billing
			Reason string `json:"reason,omitempty" maxLength:"200"`
		}
	}
	groupEndInput struct {
		GroupPath
		rest.ReasonQuery
	}
)

func (ops operations) registerGroups(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "GET /groups", ID: "list-groups", Role: auth.Viewer, Summary: "List groups by name",
	}, rest.List(ops.keys.Groups))
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
	rest.Register(group, rest.Operation{
		Pattern: "PUT /groups/{name}/override", ID: "override-group", Role: auth.Editor,
		Summary: "Override limits of each key of a group",
		Details: "Takes effect on the next check and keeps the counts. An override of a key itself wins. " +
			"The limits of each group stay.",
	}, ops.overrideGroup)
	rest.Register(group, rest.Operation{
		Pattern: "PUT /groups/{name}/billing", ID: "bill-group", Role: auth.Editor,
		Summary: "Set when the billing months of a group begin",
		Details: "For limits of each group per billing month. Another day begins a new count. Without day " +
			"and zone, they begin on the first day of a month in UTC.",
	}, ops.billGroup)
	rest.Register(group, rest.Operation{
		Pattern: "DELETE /groups/{name}/override", ID: "end-group-override", Role: auth.Editor,
		Status: http.StatusNoContent, Summary: "Remove the override of a group",
	}, ops.endGroupOverride)
}

const noGroup = "No such group: no key names it."

// groupProblem returns the problem of an operation on a group. missing is the detail if the
// group, or its override, does not exist.
func groupProblem(err error, missing string) error {
	if errors.Is(err, policy.ErrNotFound) {
		return rest.NewProblem(http.StatusNotFound, missing)
	}
	return err
}

func (ops operations) getGroup(ctx context.Context, in *GroupPath) (*rest.Body[Group], error) {
	set, err := ops.keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	g, err := ops.keys.Group(ctx, set, in.Name)
	if err != nil {
		return nil, groupProblem(err, noGroup)
	}
	out := Group{Name: g.Name, Keys: g.Keys, Override: overrideOf(g.Override),
		Limits: app.StatesOf(set, g.Limits), Billing: billingOf(g.Billing)}
	return rest.Answer(out), nil
}

func (ops operations) resetGroup(ctx context.Context, in *groupResetInput) (*rest.None, error) {
	err := ops.keys.ResetGroup(ctx, in.Name, app.NewEdit(ctx, in.Reason()))
	return nil, groupProblem(err, noGroup)
}

func (ops operations) overrideGroup(ctx context.Context, in *groupOverrideInput) (*rest.Body[Group], error) {
	var details rest.Details
	o := in.Body.read("", &details)
	if err := details.Err(); err != nil {
		return nil, err
	}
	err := ops.keys.OverrideGroup(ctx, in.Name, o, in.Accepts, app.NewEdit(ctx, o.Reason))
	if err != nil {
		return nil, groupProblem(overrideProblem(err), noGroup)
	}
	return ops.getGroup(ctx, &in.GroupPath)
}

func (ops operations) billGroup(ctx context.Context, in *groupBillingInput) (*rest.Body[Group], error) {
	err := ops.keys.BillGroup(ctx, in.Name, in.Body.Billing, app.NewEdit(ctx, in.Body.Reason))
	if err != nil {
		return nil, groupProblem(err, noGroup)
	}
	return ops.getGroup(ctx, &in.GroupPath)
}

func (ops operations) endGroupOverride(ctx context.Context, in *groupEndInput) (*rest.None, error) {
	err := ops.keys.OverrideGroup(ctx, in.Name, nil, nil, app.NewEdit(ctx, in.Reason))
	return nil, groupProblem(err, "The group has no override.")
}
