package policy

import "tidegate/internal/cause"

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
