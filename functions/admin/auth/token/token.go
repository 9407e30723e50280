// Package token has the bearer tokens of machines that call the API. A token reads
// tga_<secret><checksum>; package apikey generates it. Package registry stores its
// HMAC-SHA-256 under the pepper.
package token

import (
	"errors"
	"fmt"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// Bounds of new tokens.
const (
	MaxName  = 64                   // characters of a name
	MaxLife  = 366 * 24 * time.Hour // from creation to expiry
	MaxCount = registry.MaxTokens   // existing tokens, including expired ones
)

const prefix = "tga_"

// Errors of a Store. ErrUnknown means that a token is malformed, invented, expired or
// revoked.
var (
	ErrUnknown  = errors.New("unknown token")
	ErrNotFound = errors.New("no such token")
	ErrByToken  = errors.New("a token cannot create a token")
	ErrTooMany  = fmt.Errorf("there are %d tokens already, the maximum; revoke one first", MaxCount)
)

// InvalidError is a problem of one field of a New: name, scope or expires.
type InvalidError struct {
	Field   string
	Message string
}

func (e *InvalidError) Error() string { return e.Field + " " + e.Message }

// Scope is a token's rights. Write includes the others.
type Scope string

// The scopes.
const (
	Read   Scope = "read"
	Write  Scope = "write"
	Settle Scope = "settle"
)

// Role returns the role of a token with this scope.
func (s Scope) Role() auth.Role {
	switch s {
	case Read:
		return auth.Viewer
	case Write:
		return auth.Editor
	case Settle:
		return auth.Settler
	}
	return auth.Nobody
}

// New is a token to be created.
type New struct {
	Name    string
	Scope   Scope
	Expires time.Time
	By      registry.Actor // who creates it
}

func (n New) validate(now time.Time) error {
	problem := policy.TextProblem(n.Name, MaxName)
	switch {
	case problem != "":
		return &InvalidError{"name", problem}
	case n.Scope.Role() == auth.Nobody:
		return &InvalidError{"scope", "must be read, write or settle"}
	case !n.Expires.After(now) || n.Expires.After(now.Add(MaxLife)):
		return &InvalidError{"expires", "must be within the next 366 days"}
	}
	return nil
}

// Token is a stored token, without its secret.
type Token struct {
	ID      string
	Name    string
	Scope   Scope
	By      string // its creator
	Created time.Time
	Expires time.Time
	Used    time.Time // last use, to the minute; zero if never used
}

// Expired reports whether the token has expired.
func (t Token) Expired(now time.Time) bool { return !now.Before(t.Expires) }

// Actor returns the token's actor.
func (t Token) Actor() auth.Actor {
	return auth.Actor{ID: "token:" + t.ID, Name: t.Name, Kind: auth.Token, Role: t.Scope.Role()}
}

// WellFormed reports whether a text has the form and checksum of a token.
func WellFormed(text string) bool {
	_, err := apikey.ParsePlain(prefix, text)
	return err == nil
}
