// Package auth has the actors of the dashboard and its API, their roles, and the routes
// that need a role. The whole admin function imports it. It must not authenticate anybody;
// packages oidc, password, session and token do.
package auth

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Role is a set of rights. An editor has those of viewers and settlers; a viewer cannot
// settle. The zero value has none.
type Role uint8

// The roles.
const (
	Nobody  Role = iota
	Anybody      // of a route that looks up no session; no Actor has it
	Guest        // of a route for anybody that looks up a session; no Actor has it
	Owner        // holds an API key, and may see only that key; no Actor has it
	Settler      // may only settle costs; only machines have it
	Viewer       // may see everything but secrets
	Editor       // may change everything
)

// String returns the role's name in configuration and on pages.
func (r Role) String() string {
	switch r {
	case Anybody:
		return "anybody"
	case Guest:
		return "guest"
	case Owner:
		return "owner"
	case Settler:
		return "settler"
	case Viewer:
		return "viewer"
	case Editor:
		return "editor"
	case Nobody:
	}
	return "nobody"
}

// ParseRole parses viewer or editor, the roles of people.
func ParseRole(name string) (Role, error) {
	for _, r := range []Role{Viewer, Editor} {
		if r.String() == name {
			return r, nil
		}
	}
	return Nobody, fmt.Errorf("role is not viewer or editor")
}

// Kind distinguishes people from machines.
type Kind string

// The kinds of actors.
const (
	User  Kind = "user"  // somebody who logged in
	Token Kind = "token" // a machine with a bearer token
)

// Actor is the sender of a request. The zero value is nobody, without rights.
type Actor struct {
	// ID identifies the actor permanently, such as "password:ada", "oidc:SUBJECT" or
	// "token:ID". It contains nothing that people choose themselves, such as their name
	// at a provider.
	ID   string
	Name string // for people
	Kind Kind
	Role Role
}

// Known reports whether the request has an actor, whatever its role.
func (a Actor) Known() bool { return a.Role > Nobody && a.ID != "" }

// CanView reports whether the actor may view pages and data.
func (a Actor) CanView() bool { return a.Known() && a.Role >= Viewer }

// CanSettle reports whether the actor may settle costs.
func (a Actor) CanSettle() bool { return a.Known() && a.Role == Settler || a.CanEdit() }

// CanEdit reports whether the actor may make changes.
func (a Actor) CanEdit() bool { return a.Known() && a.Role >= Editor }

// Meets reports whether the actor may use the routes of a role. Nobody is refused, and a
// route for owners checks the key itself.
func (a Actor) Meets(r Role) bool {
	switch r {
	case Anybody, Guest:
		return true
	case Settler:
		return a.CanSettle()
	case Viewer:
		return a.CanView()
	case Editor:
		return a.CanEdit()
	case Nobody, Owner:
	}
	return false
}

// String returns the "by" of an audit entry. The name suffices for users with a password,
// since the configuration has each name once. Others also have their id, since a provider
// or an editor may use a name twice.
func (a Actor) String() string {
	if a.ID == "password:"+a.Name {
		return a.Name
	}
	return a.Name + " (" + a.ID + ")"
}

type actorKey struct{}

// With returns a context with the actor.
func With(ctx context.Context, a Actor) context.Context { return context.WithValue(ctx, actorKey{}, a) }

// From returns the context's actor, or nobody.
func From(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a
}

// Deadlines of routes. A request runs until its deadline even if the client disconnects:
// Lambda does not tell, and a change that began must end.
const (
	Short = 3 * time.Second  // the default: some commands to Valkey, with retries
	Slow  = 12 * time.Second // an OpenID provider, a file, a save of large policies
	Long  = 22 * time.Second // a step of a job, a restore; below the function's 25 s
)

// Handler answers a request, or returns an error for the server to answer.
type Handler func(http.ResponseWriter, *http.Request) error

// Route handles one method of one path for actors with a role.
type Route struct {
	// Pattern is the method and the path without the base path, as in http.ServeMux. It is
	// one string literal in the source, from which local/attacks reads all routes.
	Pattern string
	Role    Role
	Handle  Handler
	// Resumes says that Handle can show the form of a POST again without saving, when the
	// form's action is page.Resume.
	Resumes  bool
	MaxBody  int64         // bytes of a request's body; 0 means the maximum of a form
	Deadline time.Duration // for Handle; 0 means Short
}
