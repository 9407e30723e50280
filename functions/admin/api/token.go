package api

import (
	"context"
	"net/http"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/token"
)

// Token is a machine token without its secret.
type Token struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Scope    string     `json:"scope" doc:"read, write or settle; empty if the token's record is unreadable"`
	By       string     `json:"createdBy"`
	Created  time.Time  `json:"created"`
	Expires  time.Time  `json:"expires"`
	LastUsed *time.Time `json:"lastUsed" doc:"Minute of the last use; null if never used"`
}

func tokenOf(t token.Token) Token {
	return Token{t.ID, t.Name, string(t.Scope), t.By, t.Created, t.Expires, schema.Given(t.Used)}
}

type (
	tokensOutput struct {
		Body struct {
			Items []Token `json:"items"`
		}
	}
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
			Token  Token  `json:"token"`
			Secret string `json:"secret" doc:"Only in this response"`
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
	}, a.listTokens)
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

func (a *api) listTokens(ctx context.Context, _ *rest.None) (*tokensOutput, error) {
	tokens, err := a.Tokens.List(ctx)
	if err != nil {
		return nil, err
	}
	out := &tokensOutput{}
	out.Body.Items = make([]Token, len(tokens))
	for i, t := range tokens {
		out.Body.Items[i] = tokenOf(t)
	}
	return out, nil
}

func (a *api) createToken(ctx context.Context, in *newTokenInput) (*newTokenOutput, error) {
	n := token.New{Name: in.Body.Name, Scope: token.Scope(in.Body.Scope), Expires: in.Body.Expires,
		By: app.ActorOf(ctx)}
	t, secret, err := a.Tokens.Create(ctx, n)
	if err := app.NotedSecret(ctx, err); err != nil {
		return nil, err
	}
	out := &newTokenOutput{Location: Prefix + "/tokens/" + t.ID}
	out.Body.Token, out.Body.Secret = tokenOf(t), secret.Reveal()
	return out, nil
}
