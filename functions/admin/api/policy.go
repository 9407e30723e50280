package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
)

func (a *api) registerPolicy() {
	group := a.Group("policy")
	rest.Register(group, rest.Operation{
		Pattern: "GET /policy", ID: "get-policy", Role: auth.Viewer,
		Summary: "Get plans, limits of all callers, and routes",
	}, a.getPolicy)
	rest.Register(group, rest.Operation{
		Pattern: "GET /plans", ID: "list-plans", Role: auth.Viewer,
		Summary: "List plans and their numbers of keys",
	}, rest.List(a.Keys.Plans))
	rest.Register(group, rest.Operation{
		Pattern: "GET /routes", ID: "list-routes", Role: auth.Viewer,
		Summary: "List routes, the limits on them, and their calls of the last hour",
	}, rest.List(a.Keys.Routes))
}

func (a *api) getPolicy(ctx context.Context, in *rest.IfNoneMatch) (*rest.Cached[policydoc.Policy], error) {
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	return rest.CachedAs(*in, set.Version, policydoc.PolicyOf(set)), nil
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
