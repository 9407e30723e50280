package dashboard

import (
	"net/http"
	"runtime"
	"strings"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/web/templates"
)

// maxSessions is how many of somebody's sessions are shown.
const maxSessions = 20

func (d *dashboard) showSettings(w http.ResponseWriter, r *http.Request) {
	d.renderSettings(w, r, http.StatusOK, newTokenForm())
}

func (d *dashboard) renderSettings(w http.ResponseWriter, r *http.Request, status int, form tokenForm) {
	actor := auth.From(r.Context())
	sessions, err := d.Sessions.List(r.Context(), actor.ID, maxSessions)
	if err != nil {
		d.FailStore(w, r, "list sessions", err)
		return
	}
	page := templates.SettingsPage{
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
			d.FailStore(w, r, "list tokens", err)
			return
		}
		page.Tokens, page.Made = d.tokensPanel(tokens, form), d.madeToken(r, tokens)
	}
	d.Render(w, r, status, templates.Settings(page))
}

func (d *dashboard) accountFacts(a auth.Actor) []templates.Fact {
	way, may := "password, from this function's configuration", "read everything"
	if strings.HasPrefix(a.ID, "oidc:") && d.ProviderHost != "" {
		way = d.ProviderHost
	}
	if a.CanEdit() {
		may = "read and edit everything"
	}
	return []templates.Fact{
		{Name: "Name", Value: page.Clip(a.Name, page.MaxName)},
		{Name: "Role", Value: a.Role.String() + ": may " + may},
		{Name: "Logged in with", Value: way},
		{Name: "In the audit", Value: page.Clip(a.String(), 2*page.MaxName)},
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
		{Name: "Stage", Value: orNone(page.Clip(d.Stage, page.MaxName))},
		{Name: "Release", Value: orNone(page.Clip(d.Release, page.MaxName))},
		{Name: "Valkey", Value: page.Clip(version, page.MaxName)},
		{Name: "Built with", Value: runtime.Version()},
	}
}

func orNone(text string) string {
	if text == "" {
		return "not named"
	}
	return text
}
