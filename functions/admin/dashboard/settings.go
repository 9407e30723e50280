package dashboard

import (
	"cmp"
	"net/http"
	"runtime"
	"strings"
	"time"

	"tidegate/functions/admin/command"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/web/templates"
)

const maxSessions = 20 // sessions listed per user

func (d *dashboard) showSettings(w http.ResponseWriter, r *http.Request) error {
	return d.renderSettings(w, r)
}

func (d *dashboard) renderSettings(w http.ResponseWriter, r *http.Request) error {
	actor := auth.From(r.Context())
	sessions, err := d.Sessions.List(r.Context(), actor.ID, maxSessions)
	if err != nil {
		return page.Failed("list sessions", err)
	}
	p := templates.SettingsPage{
		Page:        d.Page(r, "Settings"),
		Account:     d.accountFacts(actor),
		Sessions:    d.sessionRows(r, sessions),
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

func (d *dashboard) sessionRows(r *http.Request, sessions []session.Session) []templates.SessionRow {
	own := session.ID(d.Session.Token(r.Context()))
	var rows []templates.SessionRow
	for _, s := range sessions {
		deadline, values, err := d.Session.Codec.Decode(s.Data)
		if err != nil {
			continue
		}
		agent, _ := values[page.SessionAgent].(string)
		started, _ := values[page.SessionStarted].(int64)
		rows = append(rows, templates.SessionRow{
			Agent: agent, Started: page.Instant(time.Unix(started, 0)), Ends: page.Instant(deadline),
			Current: s.ID == own,
		})
	}
	return rows
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

func (d *dashboard) tokensPanel(tokens []token.Token) *templates.TokensPanel {
	p := &templates.TokensPanel{Create: d.Path("/settings/tokens/new")}
	for _, t := range tokens {
		p.Rows = append(p.Rows, d.tokenRow(t))
	}
	return p
}

func (d *dashboard) tokenRow(t token.Token) templates.TokenRow {
	row := templates.TokenRow{
		ID: t.ID, Name: page.Clip(t.Name, page.MaxName), Scope: scopeText(t.Scope),
		By:      page.Clip(t.By, page.MaxName),
		Expires: page.Instant(t.Expires), Expired: t.Expired(time.Now()),
		Revoke: d.Path("/settings/tokens/" + t.ID + "/revoke"),
	}
	if !t.Used.IsZero() {
		row.Used = t.Used.UTC().Format(policydoc.ToMinute)
	}
	return row
}

func scopeText(s token.Scope) string {
	return cmp.Or(form.OptionText(command.Scopes, string(s)), "none")
}
