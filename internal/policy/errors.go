package policy

import (
	"errors"
	"strings"

	"tidegate/internal/cause"
	"tidegate/internal/limits"
)

// Errors that callers distinguish with errors.Is.
var (
	// ErrUnknownKey means that a key does not exist, its secret is wrong, or it is
	// revoked or expired. Clients must not learn which.
	ErrUnknownKey = errors.New("unknown key")
	// ErrRefused means that the caller's address may not call, or that callers of its
	// kind have no plan.
	ErrRefused = errors.New("caller is refused")
	// ErrNotFound means that no key has this id.
	ErrNotFound = errors.New("no such key")
	// ErrMissing means that a part of Valkey lost its records, or never had any. It is an
	// outage until the log of changes makes it again.
	ErrMissing = errors.New("records are missing")
	// ErrConflict means that the subject changed since the version that an edit was based
	// on. Nothing was written.
	ErrConflict = errors.New("changed meanwhile")
	// ErrUnreadable means that a record cannot be decoded: another version of Tidegate
	// wrote it, or it is damaged. Such a key can only be deleted.
	ErrUnreadable = errors.New("record cannot be read by this version")
)

// FieldError is bad input in one field.
type FieldError struct {
	Field   string // as in forms and JSON: "name", "limits[1].window"
	Message string
}

func (e FieldError) Error() string { return e.Field + ": " + e.Message }

// fieldErrors collects bad input.
type fieldErrors []FieldError

// add adds what is wrong with a field, unless problem is empty.
func (f *fieldErrors) add(field, problem string) {
	if problem != "" {
		*f = append(*f, FieldError{field, problem})
	}
}

// addLimits adds what is wrong with limits and routes.
func (f *fieldErrors) addLimits(errs []limits.FieldError) {
	for _, e := range errs {
		f.add(e.Field, e.Message)
	}
}

// InvalidError has everything that is wrong with an input. Nothing was written.
type InvalidError struct{ Fields []FieldError }

func (e *InvalidError) Error() string {
	texts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		texts[i] = f.Error()
	}
	return "invalid input: " + strings.Join(texts, "; ")
}

// Invalid returns an *InvalidError with the fields; nil if there are none.
func Invalid(fields []FieldError) error {
	if len(fields) == 0 {
		return nil
	}
	return &InvalidError{fields}
}

// RefusedError is the error of a caller that may not call. It wraps ErrUnknownKey or
// ErrRefused. Clients must not learn the cause.
type RefusedError struct {
	Cause    cause.Cause
	Verified bool // whether the credential was verified
	// Reason says to operators which claim, key or setting is the cause. It contains no
	// part of the credential. It is empty where Cause says enough.
	Reason string
}

func (e *RefusedError) Error() string { return e.Unwrap().Error() + ": " + e.Cause.String() }

// Unwrap returns ErrUnknownKey if the key is the cause, and ErrRefused if a rule is.
func (e *RefusedError) Unwrap() error {
	switch e.Cause {
	case cause.Unknown, cause.Revoked, cause.Expired, cause.OldSecret:
		return ErrUnknownKey
	default:
		return ErrRefused
	}
}
