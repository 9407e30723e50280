package server

import (
	"net/http"

	"tidegate/functions/admin/auth"
)

// need is what a request must bring to be answered. The zero value is none of them: a
// route that says nothing stops the start.
type need int

const (
	undecided need = iota
	open           // anybody; no session is looked up
	guest          // anybody; a session is looked up
	owner          // whoever holds an API key: the route finds out which; no session is looked up
	viewer         // whoever may look
	editor         // whoever may change things
	settler        // whoever may settle costs
)

// metBy reports whether somebody may have what needs this.
func (n need) metBy(a auth.Actor) bool {
	switch n {
	case open, guest:
		return true
	case viewer:
		return a.CanView()
	case editor:
		return a.CanEdit()
	case settler:
		return a.CanSettle()
	case undecided, owner:
	}
	return false
}

// route answers a pattern: method and path, as in http.ServeMux, without the base path.
// Below /api/ machines may ask too, and get errors as JSON.
type route struct {
	pattern string
	need    need
	handle  http.HandlerFunc
	resumes bool  // as auth.Route has it
	maxBody int64 // bytes of a request's body; 0 for as many as any form has
}
