package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/auth"
)

// Me is who a caller is taken for.
type Me struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Kind string `json:"kind" enum:"user,token"`
	Role string `json:"role" enum:"viewer,editor"`
}

type (
	none     struct{}
	meOutput struct{ Body Me }
	document struct {
		ContentType string `header:"Content-Type"`
		Body        []byte
	}
)

func (a *api) registerSelf() {
	register(a, operation{
		pattern: "GET /me", id: "get-me", summary: "Who the caller is", role: auth.Viewer, group: "access",
	}, func(ctx context.Context, _ *none) (*meOutput, error) {
		actor := auth.From(ctx)
		return &meOutput{Me{actor.ID, actor.Name, string(actor.Kind), actor.Role.String()}}, nil
	})
	register(a, operation{
		pattern: "GET /openapi.json", id: "get-openapi", summary: "This document", role: auth.Viewer,
		group:  "access",
		answer: "application/json", schema: &huma.Schema{Type: huma.TypeObject},
	}, func(context.Context, *none) (*document, error) {
		text, err := a.document()
		return &document{"application/json", text}, err
	})
}
