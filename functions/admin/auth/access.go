// Package auth says who acts in the dashboard and its API, and what they may do: roles,
// and the actor of a request.
package auth

import (
	"context"
	"fmt"
)

// Role is what somebody may do. An editor may do all that viewers and settlers may; a
// viewer cannot settle. The zero value may do nothing.
type Role uint8

// The roles.
const (
	Nobody  Role = iota
	Owner        // holds an API key, and may see that key alone; never an Actor's
	Settler      // may settle costs, and see or change nothing else; only machines have it
	Viewer       // may see everything but secrets
	Editor       // may change everything
)

// String returns the role's name in configuration and on pages.
func (r Role) String() string {
	switch r {
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

// ParseRole reads viewer or editor, which are what people can be.
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

// Actor is who a request comes from. The zero value is nobody, who may do nothing.
type Actor struct {
	// ID names the actor for ever, such as "password:ada", "oidc:SUBJECT" or "token:ID".
	// What people may choose themselves, such as their name at a provider, is not in it.
	ID   string
	Name string // for people
	Kind Kind
	Role Role
}

// Known reports whether somebody is there, whatever they may do.
func (a Actor) Known() bool { return a.Role > Nobody && a.ID != "" }

// CanView reports whether the actor may look at things.
func (a Actor) CanView() bool { return a.Known() && a.Role >= Viewer }

// CanSettle reports whether the actor may settle costs.
func (a Actor) CanSettle() bool { return a.Known() && a.Role == Settler || a.CanEdit() }

// CanEdit reports whether the actor may change things.
func (a Actor) CanEdit() bool { return a.Known() && a.Role >= Editor }

// String is the "by" of an audit entry: the name, which the configuration keeps apart
// from others for users with a password, and for the rest the id too, since a provider or
// an editor may name two alike.
func (a Actor) String() string {
	if a.ID == "password:"+a.Name {
		return a.Name
	}
	return a.Name + " (" + a.ID + ")"
}

type actorKey struct{}

// With returns a context in which the actor acts.
func With(ctx context.Context, a Actor) context.Context { return context.WithValue(ctx, actorKey{}, a) }

// From returns who acts in the context, nobody if none was named.
func From(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a
}
