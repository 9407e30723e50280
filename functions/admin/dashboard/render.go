package dashboard

import (
	"bytes"
	"context"
	"net/http"

	"github.com/a-h/templ"

	"tidegate/functions/admin/access"
	"tidegate/web/templates"
)

const maxStage = 20 // characters of the stage that a page shows

// render writes a whole component or, if it cannot be rendered, nothing of it.
func (d *dashboard) render(w http.ResponseWriter, r *http.Request, status int, c templ.Component) {
	var body bytes.Buffer
	// An answer that says that the time is over is still an answer.
	if err := c.Render(context.WithoutCancel(r.Context()), &body); err != nil {
		d.Log.Error("render", "error", err)
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // fails only when nobody listens any more
}

// barePage is the frame of a page that does not know who asks.
func (d *dashboard) barePage(r *http.Request, title string) templates.Page {
	return templates.Page{
		Title:  title,
		Nonce:  nonceOf(r),
		Style:  d.path("/static/" + d.Bundle.Style),
		Script: d.path("/static/" + d.Bundle.Script),
		Icon:   d.path("/static/" + d.Bundle.Icon),
		Home:   d.path("/"),
		Keys:   d.path("/keys"),
		Logout: d.path("/logout"),
		Theme:  d.theme(r),
		Stage:  clip(d.Stage, maxStage),
	}
}

// page is the frame of a page for whoever is logged in.
func (d *dashboard) page(r *http.Request, title string) templates.Page {
	p := d.barePage(r, title)
	actor := access.From(r.Context())
	p.User, p.Role, p.CanEdit = clip(actor.Name, 60), actor.Role.String(), actor.CanEdit()
	p.Nav = d.nav(r)
	if !isRefresh(r) {
		p.Toast = d.toast(r)
	}
	return p
}

// isRefresh tells a live refresh, which wants the live section alone, from a visit.
func isRefresh(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }
