package server

import (
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

func needOf(r auth.Role) need {
	switch r {
	case auth.Owner:
		return owner
	case auth.Settler:
		return settler
	case auth.Viewer:
		return viewer
	case auth.Editor:
		return editor
	case auth.Nobody:
	}
	return undecided
}
