package dashboard

import (
	"net/http"

	"tidegate/web/templates"
)

// flash leaves word of what a request achieved for the next page. undo is the address that takes it back; empty if nothing does.
func (d *dashboard) flash(r *http.Request, text, undo string) {
	d.sessions.Put(r.Context(), sessionFlash, text)
	d.sessions.Put(r.Context(), sessionUndo, undo)
}

// toast takes the word that the request before left. Pages without a session have none.
func (d *dashboard) toast(r *http.Request) templates.Toast {
	ctx := r.Context()
	if !d.sessions.Exists(ctx, sessionFlash) {
		return templates.Toast{}
	}
	return templates.Toast{Text: d.sessions.PopString(ctx, sessionFlash), Undo: d.sessions.PopString(ctx, sessionUndo)}
}
