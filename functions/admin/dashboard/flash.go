package dashboard

import (
	"net/http"

	"tidegate/web/templates"
)

// What a session keeps for the next page.
const (
	sessionFlash = "flash"
	sessionUndo  = "undo"
)

// flash leaves word of what a request achieved for the next page. undo is the address
// that takes it back; empty if nothing does.
func (rd *renderer) flash(r *http.Request, text, undo string) {
	rd.session.Put(r.Context(), sessionFlash, text)
	rd.session.Put(r.Context(), sessionUndo, undo)
}

// toast takes the word that the request before left. Pages without a session have none.
func (rd *renderer) toast(r *http.Request) templates.Toast {
	ctx := r.Context()
	if !rd.session.Exists(ctx, sessionFlash) {
		return templates.Toast{}
	}
	return templates.Toast{Text: rd.session.PopString(ctx, sessionFlash), Undo: rd.session.PopString(ctx, sessionUndo)}
}
