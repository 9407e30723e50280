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
