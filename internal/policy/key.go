// Package policy says which limits apply to a caller. It keeps API keys and their limits in Valkey, beside the counters they govern, so that one
// round trip finds the key, reads its newest limits and takes from them.
package policy

import (
	"errors"
	"time"

	"tidegate/internal/limiter"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrUnknownKey means that no such key may call: it does not exist, its secret is wrong, or it is revoked. The three look alike on purpose.
	ErrUnknownKey = errors.New("unknown key")
	// ErrNotFound means that no key has this id.
	ErrNotFound = errors.New("no such key")
	// ErrConflict means that the key changed since the version that an edit was based on; nothing was written.
	ErrConflict = errors.New("key was changed meanwhile")
	// ErrUnreadable means that another version of Tidegate wrote the key, or nobody did. The key can only be deleted.
	ErrUnreadable = errors.New("key cannot be read by this version")
)

// Status says whether a key may call.
type Status string

// The states of a key.
const (
	Active  Status = "active"
	Revoked Status = "revoked"
	// Unreadable is a key whose record this version of Tidegate cannot read: only its ID and Name are known, and it can only be deleted.
	Unreadable Status = "unreadable"
)

// Key is an API key as the registry knows it: everything but the secret.
type Key struct {
	ID      string          // 12 base62 characters: the public part of the secret, also the principal that backends see
	Name    string          // 1 to 100 characters, for people
	Env     string          // the env part of tg_<env>_…, 1 to 16 lower-case letters or digits
	Plan    string          // the plan that the limits came from
	Status  Status          // Active or Revoked; in a list also Unreadable
	Limits  []limiter.Limit // 1 to limiter.MaxLimits, taken all or nothing
	Version int64           // 1 at creation, one more with each edit
	Created time.Time
	Updated time.Time
}

// NewKey describes a key to create. Every field is required.
type NewKey struct {
	Name   string
	Env    string
	Plan   string
	Limits []limiter.Limit
}

// FieldError is bad input in one field; Field is its name in forms and JSON ("name", "limits[1].window").
type FieldError struct {
	Field   string
	Message string
}

func (e FieldError) Error() string { return e.Field + ": " + e.Message }

// InvalidError lists everything wrong with an input. Nothing was written.
type InvalidError struct{ Fields []FieldError }

func (e *InvalidError) Error() string {
	text := "invalid input"
	for i, f := range e.Fields {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		text += sep + f.Error()
	}
	return text
}
