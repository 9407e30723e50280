package server

import (
	"net/http"

	"tidegate/functions/admin/auth"
)

// need is what a route requires of a request. A route with the zero value stops the
// start.
type need int

const (
	undecided need = iota
	open           // anybody; no session is looked up
	guest          // anybody; a session is looked up
	owner          // holders of an API key, which the route checks; no session is looked up
	viewer         // actors that may view
	editor         // actors that may make changes
	settler        // actors that may settle costs
)

// metBy reports whether an actor meets the need.
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

// route handles a pattern: method and path, as in http.ServeMux, without the base path.
// Machines may use paths below /api/, and get errors as JSON.
type route struct {
	pattern string
	need    need
	handle  http.HandlerFunc
	resumes bool  // as auth.Route has it
	maxBody int64 // bytes of a request's body; 0 means the maximum of a form
}
