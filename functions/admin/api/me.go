package api

import (
	"context"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
)

// Me is who a caller is taken for.
type Me struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Kind string `json:"kind" enum:"user,token"`
	Role string `json:"role" enum:"viewer,editor"`
}

func (a *api) registerMe() {
	group := a.Group("access")
	rest.Register(group, rest.Operation{
		Pattern: "GET /me", ID: "get-me", Role: auth.Viewer, Summary: "Who the caller is",
	}, func(ctx context.Context, _ *rest.None) (*rest.Body[Me], error) {
		actor := auth.From(ctx)
		return rest.Answer(Me{actor.ID, actor.Name, string(actor.Kind), actor.Role.String()}), nil
	})
}
