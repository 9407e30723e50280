package api

import (
	"context"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
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
}
