package page

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"

	"github.com/a-h/templ"
	"github.com/alexedwards/scs/v2"

	"tidegate/functions/admin/auth"
	"tidegate/internal/journal"
	"tidegate/web/static"
	"tidegate/web/templates"
)

// Renderer writes pages: their frame, errors, and messages for the next page.
type Renderer struct {
	base   string // prefix of every address
	stage  string // name of the deployment; may be empty
	bundle static.Bundle
	log    *slog.Logger
	// Session is who is logged in, and what the next page shows them.
	Session *scs.SessionManager
	// Sealer seals what a later request gets back; nil while there is no store.
	Sealer *Sealer
	// Resumes reports whether a request's form can be shown again as it was typed.
	Resumes func(*http.Request) bool
	// OwnerCookie names the cookie that knows whose the forms of a browser are.
	OwnerCookie string
	// JournalStatus says which changes are not safe yet and what Valkey lost; nil without
	// a journal.
	JournalStatus func(context.Context) journal.Status
}

// New returns a renderer of pages whose addresses begin with base. stage names the
// deployment on every page; empty for none.
func New(
	base, stage string, bundle static.Bundle, log *slog.Logger, session *scs.SessionManager,
) *Renderer {
	return &Renderer{base: base, stage: stage, bundle: bundle, log: log, Session: session}
}

// Path returns the address that browsers use for a path of the dashboard.
func (rd *Renderer) Path(p string) string { return rd.base + p }

const maxStage = 20 // characters of the stage that a page shows

// Render writes a whole component or, if it cannot be rendered, nothing of it.
func (rd *Renderer) Render(w http.ResponseWriter, r *http.Request, status int, c templ.Component) {
	var body bytes.Buffer
	// An answer that says that the time is over is still an answer.
	if err := c.Render(context.WithoutCancel(r.Context()), &body); err != nil {
		rd.log.Error("render", "cause", err)
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // fails only when nobody listens any more
}

// Bare is the frame of a page that does not know who asks.
func (rd *Renderer) Bare(r *http.Request, title string) templates.Page {
	return templates.Page{
		Title:  title,
		Nonce:  nonceOf(r),
		Style:  rd.Path("/static/" + rd.bundle.Style),
		Script: rd.Path("/static/" + rd.bundle.Script),
		Icon:   rd.Path("/static/" + rd.bundle.Icon),
		Home:   rd.Path("/"),
		Keys:   rd.Path("/keys"),
		Logout: rd.Path("/logout"),
		Theme:  rd.theme(r),
		Stage:  Clip(rd.stage, maxStage),
	}
}

// Page is the frame of a page for whoever is logged in.
func (rd *Renderer) Page(r *http.Request, title string) templates.Page {
	p := rd.Bare(r, title)
	actor := auth.From(r.Context())
	p.User, p.Role, p.CanEdit = Clip(actor.Name, 60), actor.Role.String(), actor.CanEdit()
	p.Nav = rd.nav(r)
	if rd.JournalStatus != nil {
		p.Warnings = rd.warnings(rd.JournalStatus(r.Context()))
	}
	if !IsRefresh(r) {
		p.Toast = rd.toast(r)
	}
	return p
}

// warnings are what every page says of the journal, in words.
func (rd *Renderer) warnings(s journal.Status) []templates.Warning {
	var all []templates.Warning
	if s.Unsafe == 1 {
		all = append(all, templates.Warning{Text: "1 change is not safe yet: the journal does not have it."})
	}
	if s.Unsafe > 1 {
		all = append(all, templates.Warning{Text: Number(int64(s.Unsafe)) +
			" changes are not safe yet: the journal does not have them."})
	}
	if s.Behind > 0 {
		all = append(all, templates.Warning{
			Text: "Valkey lost changes, in " + Number(int64(s.Behind)) +
				" of 256 parts. Edits there are refused.",
			Restore: rd.Path("/journal/restore"),
		})
	}
	if s.Away && s.Unsafe == 0 {
		all = append(all, templates.Warning{Text: "The journal does not answer."})
	}
	return all
}

// IsRefresh reports a live refresh, which wants the live section alone.
func IsRefresh(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }

// CanEdit reports whether a page should offer changes.
func CanEdit(r *http.Request) bool { return auth.From(r.Context()).CanEdit() }

// ChartScript is the address of the script that a page with a chart needs: its
// Page.Chart.
func (rd *Renderer) ChartScript() string { return rd.Path("/static/" + rd.bundle.Chart) }

// What a session records of its log-in, for the list of sessions.
const (
	SessionStarted = "started" // second of the Unix epoch
	SessionAgent   = "agent"   // the browser and its system
)
