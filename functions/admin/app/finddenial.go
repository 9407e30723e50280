package app

import (
	"context"
	"errors"

	"tidegate/internal/records"
)

// ErrReference means that a text is not the reference of a denial.
var ErrReference = errors.New("not a reference")

// FindDenial returns the denial that a reference names, or that of the call with API
// Gateway's id of its request. It returns ErrReference for a text of another form, and
// records.ErrNotKept if there is none.
func FindDenial(ctx context.Context, calls *records.Reader, reference, request string) (records.Denial,
	error) {
	if reference == "" {
		return calls.Request(ctx, request)
	}
	ref, ok := records.ParseReference(reference)
	if !ok {
		return records.Denial{}, ErrReference
	}
	return calls.Find(ctx, ref)
}
