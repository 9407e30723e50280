package api

import (
	"context"
	"net/http"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/list"
)

type (
	newTokenInput struct {
		Body struct {
			Name    string    `json:"name" minLength:"1" maxLength:"64"`
			Scope   string    `json:"scope" enum:"read,write,settle" doc:"settle only settles calls; write includes read and settle"`
			Expires time.Time `json:"expires" doc:"At most 366 days from now"`
		}
	}
	newTokenOutput struct {
		Location string `header:"Location"`
		Body     struct {
			Token  token.Token `json:"token"`
			Secret string      `json:"secret" doc:"Only in this response"`
		}
	}
	tokenInput struct {
		ID string `path:"id" maxLength:"64"`
	}
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
		Pattern: "POST /tokens", ID: "create-token", Role: auth.Editor, Status: http.StatusCreated,
		Summary: "Create a machine token",
		Details: "Needs a person's session, so that a leaked token cannot create another.",
	}, a.createToken)
	rest.Register(group, rest.Operation{
		Pattern: "DELETE /tokens/{id}", ID: "revoke-token", Role: auth.Editor, Status: http.StatusNoContent,
		Summary: "Revoke a machine token, including the one of this request",
	}, func(ctx context.Context, in *tokenInput) (*rest.None, error) {
		return nil, app.Noted(ctx, a.Tokens.Revoke(ctx, in.ID, app.ActorOf(ctx)))
	})
}

func (a *api) createToken(ctx context.Context, in *newTokenInput) (*newTokenOutput, error) {
	n := token.New{Name: in.Body.Name, Scope: token.Scope(in.Body.Scope), Expires: in.Body.Expires,
		By: app.ActorOf(ctx)}
	t, secret, err := a.Tokens.Create(ctx, n)
	if err := app.NotedSecret(ctx, err); err != nil {
		return nil, err
	}
	out := &newTokenOutput{Location: Prefix + "/tokens/" + t.ID}
	out.Body.Token, out.Body.Secret = t, secret.Reveal()
	return out, nil
}
