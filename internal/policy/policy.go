// Package policy is the model of what operators configure: a Set of plans, route rules
// and limits of all callers, and the Key of one caller with its plan and override. It
// validates both, and says which limits hold for a key. It is pure: it knows no Valkey
// and no clock. Package policyset stores it, package registry edits it, package enforce
// checks calls by it.
package policy

import (
	"errors"
)

// Errors that callers distinguish with errors.Is.
var (
	// ErrUnknownKey means that no such key may call: it does not exist, its secret is
	// wrong, it is revoked or expired. They look alike on purpose.
	ErrUnknownKey = errors.New("unknown key")
	// ErrRefused means that the caller's address may not call, or that no plan is meant
	// for callers of its kind.
	ErrRefused = errors.New("caller is refused")
	// ErrNotFound means that no key has this id.
	ErrNotFound = errors.New("no such key")
	// ErrConflict means that the subject changed since the version that an edit was based
	// on; nothing was written.
	ErrConflict = errors.New("changed meanwhile")
	// ErrUnreadable means that another version of Tidegate wrote the record, or nobody
	// did. A key can only be deleted then.
	ErrUnreadable = errors.New("record cannot be read by this version")
	// ErrUnfinished means that an edit was written, but not every copy of it: checks may
	// obey either version. Saving again, or Sync, finishes it.
	ErrUnfinished = errors.New("saved, but not everywhere yet: save again")
)

// FieldError is bad input in one field; Field is its name in forms and JSON ("name",
// "limits[1].window").
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
