// Package policy says who may call and which limits apply. A Set holds plans, route rules and what else is configured for all; a Key has a plan, an
// override, an expiry, a ban. Both lie in Valkey, beside the counts that they govern, so that one round trip finds the key, reads its newest limits
// and takes from them.
//
// The Set lies in one place, in a few mirrors and, as far as the script of a check needs it, in a copy in every bucket of the key space
// (keyspace). A save writes the Set, then the others, and is acknowledged when all are written. Store.Sync makes them agree when a failover left
// them apart. A check tells the script which version it knows; when its bucket has a newer one, nothing is taken, the Set is read again, and the
// check repeated. So a save acts on every check that starts after it was acknowledged, and a check pays a second round trip once after each save.
package policy

import (
	"errors"

	"tidegate/internal/audit"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrUnknownKey means that no such key may call: it does not exist, its secret is wrong, it is revoked or expired. They look alike on purpose.
	ErrUnknownKey = errors.New("unknown key")
	// ErrRefused means that the caller's address may not call, or that no plan is meant for callers of its kind.
	ErrRefused = errors.New("caller is refused")
	// ErrNotFound means that no key has this id.
	ErrNotFound = errors.New("no such key")
	// ErrConflict means that the subject changed since the version that an edit was based on; nothing was written.
	ErrConflict = errors.New("changed meanwhile")
	// ErrUnreadable means that another version of Tidegate wrote the record, or nobody did. A key can only be deleted then.
	ErrUnreadable = errors.New("record cannot be read by this version")
	// ErrUnfinished means that an edit was written, but not every copy of it: checks may obey either version. Saving again, or Sync, finishes it.
	ErrUnfinished = errors.New("saved, but not everywhere yet: save again")
)

// Edit says who changes something and why.
type Edit struct {
	By     audit.Actor
	Reason string // up to 200 characters; may be empty
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
