package policy

import (
	"errors"

	"tidegate/internal/cause"
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

// Invalid returns an *InvalidError of the fields; nil when there are none.
func Invalid(fields []FieldError) error {
	if len(fields) == 0 {
		return nil
	}
	return &InvalidError{fields}
}

// RefusedError is the error of a caller that may not call. errors.Is takes it for
// ErrUnknownKey or ErrRefused. Callers never learn the cause.
type RefusedError struct {
	Cause    cause.Cause
	Verified bool // the credential was proven to be the subject's own
}

func (e *RefusedError) Error() string { return e.Unwrap().Error() + ": " + e.Cause.String() }

// Unwrap returns ErrUnknownKey when the key says so, and ErrRefused when a rule does.
func (e *RefusedError) Unwrap() error {
	switch e.Cause {
	case cause.Unknown, cause.Revoked, cause.Expired, cause.OldSecret:
		return ErrUnknownKey
	default:
		return ErrRefused
	}
}
