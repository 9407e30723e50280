package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
)

type plansOutput struct {
	Body struct {
		Items []PlanKeys `json:"items"`
	}
}

// PlanKeys is a plan and the number of its keys.
type PlanKeys struct {
	policydoc.Plan
	Keys int64 `json:"keys"`
}

func (a *api) registerPolicy() {
	group := a.Group("policy")
	rest.Register(group, rest.Operation{
		Pattern: "GET /policy", ID: "get-policy", Role: auth.Viewer,
		Summary: "Get plans, limits of all callers, and routes",
	}, a.getPolicy)
	rest.Register(group, rest.Operation{
		Pattern: "GET /plans", ID: "list-plans", Role: auth.Viewer,
		Summary: "List plans and their numbers of keys",
	}, a.listPlans)
}

func (a *api) getPolicy(ctx context.Context, in *rest.IfNoneMatch) (*rest.Cached[policydoc.Policy], error) {
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	return rest.CachedAs(*in, set.Version, policydoc.PolicyOf(set)), nil
}

func (a *api) listPlans(ctx context.Context, _ *rest.None) (*plansOutput, error) {
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	counts, err := a.Keys.PlanCounts(ctx, set)
	if err != nil {
		return nil, err
	}
	out := &plansOutput{}
	out.Body.Items = make([]PlanKeys, len(set.Plans))
	for i, p := range set.Plans {
		out.Body.Items[i] = PlanKeys{policydoc.PlanOf(p), counts[p.Number]}
	}
	return out, nil
}

func (a *api) registerPolicyFile() {
	group := a.Group("policy")
	rest.Register(group, rest.Operation{
		Pattern: "GET /policy.yaml", ID: "export-policy", Role: auth.Viewer,
		Summary: "Export the policies as YAML", Answer: "application/yaml",
		Schema: &huma.Schema{Type: huma.TypeString},
	}, a.exportPolicy)
}

func (a *api) exportPolicy(ctx context.Context, in *rest.IfNoneMatch) (*rest.Cached[[]byte], error) {
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	text, err := policydoc.Write(set)
	if err != nil {
		return nil, err
	}
	out := rest.CachedAs(*in, set.Version, text)
	out.ContentType = "application/yaml"
	return out, nil
}
