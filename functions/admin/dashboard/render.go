package dashboard

import (
	"bytes"
	"net/http"

	"github.com/a-h/templ"

	"tidegate/web/templates"
)

// render writes a whole component or, if it cannot be rendered, nothing of it.
func (d *dashboard) render(w http.ResponseWriter, r *http.Request, status int, c templ.Component) {
	var body bytes.Buffer
	if err := c.Render(r.Context(), &body); err != nil {
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
	}
}

// page is the frame of a page for whoever is logged in.
func (d *dashboard) page(r *http.Request, title string) templates.Page {
	p := d.barePage(r, title)
	p.User = clip(d.sessions.GetString(r.Context(), sessionUser), 60)
	p.Nav = d.nav(r)
	return p
}

// isRefresh tells a live refresh, which wants the live section alone, from a visit.
func isRefresh(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }
