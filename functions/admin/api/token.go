package api

import (
	"context"

	"tidegate/functions/admin/command"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
)

type tokensOutput struct {
	Body struct {
		Items []command.Token `json:"items"`
	}
}

func (a *api) registerTokens() {
	group := a.Group("access")
	rest.Register(group, rest.Operation{
		Pattern: "GET /tokens", ID: "list-tokens", Role: auth.Editor, Summary: "List machine tokens",
	}, a.listTokens)
}

func (a *api) listTokens(ctx context.Context, _ *rest.None) (*tokensOutput, error) {
	tokens, err := a.Tokens.List(ctx)
	if err != nil {
		return nil, err
	}
	out := &tokensOutput{}
	out.Body.Items = make([]command.Token, len(tokens))
	for i, t := range tokens {
		out.Body.Items[i] = command.TokenOf(t)
	}
	return out, nil
}
