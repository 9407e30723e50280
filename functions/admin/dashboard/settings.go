package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/a-h/templ"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/command"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/table"
	"tidegate/functions/admin/list"
	"tidegate/web/templates"
)

func (d *dashboard) showSettings(w http.ResponseWriter, r *http.Request) error {
	return d.renderSettings(w, r)
}

func (d *dashboard) renderSettings(w http.ResponseWriter, r *http.Request) error {
	actor := auth.From(r.Context())
	sessions, err := d.Sessions(r.Context())
	if err != nil {
		return page.Failed("list sessions", err)
	}
	p := templates.SettingsPage{
		Page:        d.Page(r, "Settings"),
		Account:     d.accountFacts(actor),
		Sessions:    sessionTable(sessions),
		EndSessions: d.Path("/settings/sessions/end"),
		Deployment:  d.deploymentFacts(r),
		OpenAPI:     d.Path("/api/v1/openapi.json"),
	}
	if actor.CanEdit() {
		tokens, err := d.Tokens.List(r.Context())
		if err != nil {
			return page.Failed("list tokens", err)
		}
		p.Tokens = d.tokensPanel(tokens)
		p.Created = d.createdToken(r, tokens)
	}
	return d.Render(w, r, http.StatusOK, templates.Settings(p))
}

func (d *dashboard) accountFacts(a auth.Actor) []templates.Fact {
	method := "password, from this function's configuration"
	access := "read everything"
	if strings.HasPrefix(a.ID, "oidc:") && d.ProviderHost != "" {
		method = d.ProviderHost
	}
	if a.CanEdit() {
		access = "read and edit everything"
	}
	return []templates.Fact{
		{Name: "Name", Value: page.Clip(a.Name, page.MaxName)},
		{Name: "Role", Value: a.Role.String() + ": can " + access},
		{Name: "Logged in with", Value: method},
		{Name: "Name in the audit", Value: page.Clip(a.String(), 2*page.MaxName)},
	}
}

func sessionTable(all []session.Own) templates.Table {
	return table.Rows("Your sessions", []table.Column[session.Own]{
		{Head: "Browser", Cell: func(s *session.Own) templ.Component {
			if s.Current {
				return templates.Parts(templates.Text(s.Browser), templates.Pill("this session"))
			}
			return templates.Text(s.Browser)
		}},
		{Head: "Since", Cell: func(s *session.Own) templ.Component { return templates.At(s.Started) }},
		{Head: "Expires", Cell: func(s *session.Own) templ.Component { return templates.At(s.Expires) }},
	}, all, nil)
}

func (d *dashboard) deploymentFacts(r *http.Request) []templates.Fact {
	version, err := d.StoreVersion(r.Context())
	if err != nil {
		d.Log.Warn("store version", "cause", err)
		version = "unknown"
	}
	return []templates.Fact{
		{Name: "Stage", Value: cmp.Or(page.Clip(d.Stage, page.MaxName), "not set")},
		{Name: "Release", Value: cmp.Or(page.Clip(d.Release, page.MaxName), "not set")},
		{Name: "Valkey", Value: page.Clip(version, page.MaxName)},
		{Name: "Built with", Value: runtime.Version()},
	}
}

// createdToken returns the token that the query parameter made names, if its secret was
// not shown yet, else nil. It need not be among the tokens: it may not be known whether it
// was saved.
func (d *dashboard) createdToken(r *http.Request, tokens []token.Token) *templates.CreatedToken {
	made := token.Token{ID: r.URL.Query().Get("made")}
	secret, ok := d.TakeSecret(r, command.TokenSecret+made.ID)
	if !ok {
		return nil
	}
	made.Name = made.ID
	for _, t := range tokens {
		if t.ID == made.ID {
			made = t
		}
	}
	return &templates.CreatedToken{
		Name: page.Clip(made.Name, page.MaxName), Secret: secret, Expires: page.Instant(made.Expires),
	}
}

// tokenList returns the list of machine tokens, for its file.
func (d *dashboard) tokenList() *table.Of[list.Paging, token.Token] {
	return &table.Of[list.Paging, token.Token]{Renderer: d.Renderer, Path: "/settings/tokens", File: "tokens",
		Read: func(ctx context.Context, _ *list.Paging) (list.Page[token.Token], error) {
			tokens, err := d.Tokens.List(ctx)
			return list.Page[token.Token]{Items: tokens}, err
		}}
}

func (d *dashboard) tokensPanel(tokens []token.Token) *templates.TokensPanel {
	p := &templates.TokensPanel{Create: d.Path("/settings/tokens/new"),
		Export: d.Path("/settings/tokens.csv")}
	p.Table = table.Rows("Machine tokens", []table.Column[token.Token]{
		{Head: "Token", Cell: func(t *token.Token) templ.Component {
			return templates.Parts(templates.Text(page.Clip(t.Name, page.MaxName)),
				templates.Code("tga_"+t.ID+"…"))
		}},
		{
			Head: "Scope",
			Cell: func(t *token.Token) templ.Component { return templates.Text(scopeText(t.Scope)) },
		},
		{Head: "Last used", Cell: func(t *token.Token) templ.Component {
			if t.Used.IsZero() {
				return templates.Text("never")
			}
			return templates.At(t.Used)
		}},
		{Head: "Expires", Cell: func(t *token.Token) templ.Component {
			if t.Expired(time.Now()) {
				return templates.Parts(templates.At(t.Expires), templates.Pill("expired"))
			}
			return templates.At(t.Expires)
		}},
		{Head: "Created by", Cell: func(t *token.Token) templ.Component {
			return templates.Text(page.Clip(t.By, page.MaxName))
		}},
		{Cell: func(t *token.Token) templ.Component {
			return templates.PostButton(d.Path("/settings/tokens/"+t.ID+"/revoke"), "Revoke",
				"Revoke "+t.Name)
		}},
	}, tokens, nil)
	return p
}

func scopeText(s token.Scope) string {
	return cmp.Or(form.OptionText(command.Scopes, string(s)), "none")
}
