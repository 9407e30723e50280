package api

import (
	"context"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/list"
)

func (a *api) registerTokens() {
	group := a.Group("access")
	rest.Register(group, rest.Operation{
		Pattern: "GET /tokens", ID: "list-tokens", Role: auth.Editor, Summary: "List machine tokens",
	}, rest.List(func(ctx context.Context, _ *rest.None) (list.Page[token.Token], error) {
		tokens, err := a.Tokens.List(ctx)
		return list.Page[token.Token]{Items: tokens}, err
	}))
	rest.Register(group, rest.Operation{
		Pattern: "GET /sessions", ID: "list-sessions", Role: auth.Viewer,
		Summary: "List the sessions of the calling user, newest first",
		Details: "A machine token has none.",
	}, rest.List(func(ctx context.Context, _ *rest.None) (list.Page[session.Own], error) {
		sessions, err := a.Sessions(ctx)
		return list.Page[session.Own]{Items: sessions}, err
	}))
}
