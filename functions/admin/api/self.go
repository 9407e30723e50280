package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

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

type document struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func (a *api) registerSelf() {
	group := a.Group("access")
	rest.Register(group, rest.Operation{
		Pattern: "GET /me", ID: "get-me", Role: auth.Viewer, Summary: "Who the caller is",
	}, func(ctx context.Context, _ *rest.None) (*rest.Body[Me], error) {
		actor := auth.From(ctx)
		return rest.Answer(Me{actor.ID, actor.Name, string(actor.Kind), actor.Role.String()}), nil
	})
	rest.Register(group, rest.Operation{
		Pattern: "GET /openapi.json", ID: "get-openapi", Role: auth.Viewer, Summary: "This document",
		Answer: "application/json", Schema: &huma.Schema{Type: huma.TypeObject},
	}, func(context.Context, *rest.None) (*document, error) {
		text, err := a.Document()
		return &document{"application/json", text}, err
	})
}
