package api

import (
	"errors"
	"net/http"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/audit"
	"tidegate/internal/crossing"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
)

// problem returns the problem that answers an error. An unknown error is taken for one of
// the store: it is logged and answered with 503.
func (a *api) problem(operation string, err error) error {
	var p *rest.Problem
	var invalid *policy.InvalidError
	var file *policydoc.InvalidError
	var wrongToken *token.InvalidError
	var refused *app.RefusedError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &invalid):
		return rest.Unprocessable(schema.InBody(invalid.Fields, "")...)
	case errors.As(err, &file) && file.TooMany:
		return rest.NewProblem(http.StatusBadRequest,
			"The file has more fields or values than any policy: see errors.", fileDetails(file)...)
	case errors.As(err, &file):
		return rest.Unprocessable(fileDetails(file)...)
	case errors.Is(err, crossing.ErrCursor), errors.Is(err, denylog.ErrCursor):
		return rest.Invalid("query.after", "must be next of a page before")
	case errors.Is(err, usage.ErrCursor):
		return rest.Invalid("query.after", "is not a position in this list; start from the first page")
	case errors.As(err, &wrongToken):
		return rest.Invalid("body."+wrongToken.Field, wrongToken.Message)
	case errors.As(err, &refused):
		return refusal(refused)
	}
	for _, known := range knownErrors {
		if errors.Is(err, known.err) && !errors.Is(err, policy.ErrUnfinished) {
			return rest.NewProblem(known.status, known.detail)
		}
	}
	a.Log.Error("api: "+operation, "cause", err)
	detail := "Valkey is not responding. Try again in a moment. Limits stay in force."
	if errors.Is(err, policy.ErrUnfinished) {
		detail = "Saved, not on every shard yet: some checks may obey the version before. POST " + Prefix +
			"/policy/sync finishes it."
	}
	return rest.NewProblem(http.StatusServiceUnavailable, detail)
}

var knownErrors = []struct {
	err    error
	status int
	detail string
}{
	{policy.ErrNotFound, http.StatusNotFound, "There is no such key."},
	{policy.ErrConflict, http.StatusConflict,
		"Others changed the same all the while. Nothing was written: send it again."},
	{policy.ErrUnreadable, http.StatusConflict,
		"Another version of Tidegate wrote this key: it cannot be read here, only deleted."},
	{audit.ErrJournalAway, http.StatusServiceUnavailable,
		"The journal does not answer. Nothing was changed: send it again."},
	{audit.ErrBehind, http.StatusServiceUnavailable,
		"Valkey lost changes. Nothing was changed: POST " + Prefix + "/journal/restore, then send it again."},
	{audit.ErrMayBeLost, http.StatusServiceUnavailable,
		"The change was made, but Valkey may have lost it: read it, and send it again if it is not there."},
	{audit.ErrUnsafe, http.StatusServiceUnavailable,
		"The change is made, but not safe yet: the journal gets it when it answers again."},
	{audit.ErrOlderAway, http.StatusServiceUnavailable,
		"The journal, which has the older entries, does not answer: send it again."},
	{audit.ErrPosition, http.StatusUnprocessableEntity,
		"This is no position in the audit: start from the newest entry."},
	{usage.ErrSpan, http.StatusUnprocessableEntity,
		"Usage is kept by the minute for 24 hours and by the hour for 30 days, and comes in 1,500 steps at " +
			"most: choose another from, to or step."},
	{token.ErrNotFound, http.StatusNotFound, "There is no such token. It may have been revoked already."},
	{token.ErrTooMany, http.StatusConflict, "There are as many tokens as there may be: revoke one first."},
}

func fileDetails(file *policydoc.InvalidError) []rest.Detail {
	all := make([]rest.Detail, len(file.Problems))
	for i, p := range file.Problems {
		all[i] = rest.Detail{Location: p.Field, Line: p.Line, Message: rest.Clip(p.Message)}
	}
	return all
}

func refusal(r *app.RefusedError) *rest.Problem {
	p := rest.NewProblem(r.Status, r.Detail)
	p.Type, p.Title = r.Type, r.Title
	if r.RetryAfter > 0 {
		return p.RetryAfter(r.RetryAfter)
	}
	return p
}
