package dashboard

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"

	"github.com/a-h/templ"
	"github.com/alexedwards/scs/v2"

	"tidegate/functions/admin/auth"
	"tidegate/web/static"
	"tidegate/web/templates"
)

// renderer writes pages: their frame, errors, and messages for the next page.
type renderer struct {
	base    string // prefix of every address
	stage   string // name of the deployment; may be empty
	bundle  static.Bundle
	log     *slog.Logger
	session *scs.SessionManager
}

// path returns the address that browsers use for a path of the dashboard.
func (rd *renderer) path(p string) string { return rd.base + p }

const maxStage = 20 // characters of the stage that a page shows

// render writes a whole component or, if it cannot be rendered, nothing of it.
func (rd *renderer) render(w http.ResponseWriter, r *http.Request, status int, c templ.Component) {
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

// barePage is the frame of a page that does not know who asks.
func (rd *renderer) barePage(r *http.Request, title string) templates.Page {
	return templates.Page{
		Title:  title,
		Nonce:  nonceOf(r),
		Style:  rd.path("/static/" + rd.bundle.Style),
		Script: rd.path("/static/" + rd.bundle.Script),
		Icon:   rd.path("/static/" + rd.bundle.Icon),
		Home:   rd.path("/"),
		Keys:   rd.path("/keys"),
		Logout: rd.path("/logout"),
		Theme:  rd.theme(r),
		Stage:  clip(rd.stage, maxStage),
	}
}

// page is the frame of a page for whoever is logged in.
func (rd *renderer) page(r *http.Request, title string) templates.Page {
	p := rd.barePage(r, title)
	actor := auth.From(r.Context())
	p.User, p.Role, p.CanEdit = clip(actor.Name, 60), actor.Role.String(), actor.CanEdit()
	p.Nav = rd.nav(r)
	if !isRefresh(r) {
		p.Toast = rd.toast(r)
	}
	return p
}

// isRefresh tells a live refresh, which wants the live section alone, from a visit.
func isRefresh(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }

// canEdit reports whether a page should offer changes.
func canEdit(r *http.Request) bool { return auth.From(r.Context()).CanEdit() }
