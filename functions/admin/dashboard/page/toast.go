package page

import (
	"net/http"

	"tidegate/web/templates"
)

// What a session keeps for the next page.
const (
	sessionFlash = "flash"
	sessionUndo  = "undo"
)

// Flash leaves word of what a request achieved for the next page. undo is the address
// that takes it back; empty if nothing does.
func (rd *Renderer) Flash(r *http.Request, text, undo string) {
	rd.Session.Put(r.Context(), sessionFlash, text)
	rd.Session.Put(r.Context(), sessionUndo, undo)
}

// toast takes the word that the request before left. Pages without a session have none.
func (rd *Renderer) toast(r *http.Request) templates.Toast {
	ctx := r.Context()
	if !rd.Session.Exists(ctx, sessionFlash) {
		return templates.Toast{}
	}
	return templates.Toast{
		Text: rd.Session.PopString(ctx, sessionFlash), Undo: rd.Session.PopString(ctx, sessionUndo),
	}
}
