package api

import (
	"errors"
	"fmt"
	"net/http"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/changes"
	"tidegate/internal/crossing"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
)

// problem returns the problem that answers an error. An unknown error is taken for one of
// the store: it is logged and answered with 503.
func (a *api) problem(operation string, err error) error {
	var p *rest.Problem
	var invalid *policy.InvalidError
	var file *policydoc.InvalidError
	var wrongToken *token.InvalidError
	var refused *app.RefusedError
	var unconfirmed *app.UnconfirmedError
	var damaged *changes.DamagedError
	var stray *changes.StrayError
	switch {
	case errors.As(err, &damaged):
		return rest.NewProblem(http.StatusServiceUnavailable,
			fmt.Sprintf("Change %d of the log is missing or damaged. Nothing was changed. Revocations and "+
				"bans act. Bring its object back, or run scripts/restore -void %[1]d.", damaged.Number))
	case errors.As(err, &stray):
		return rest.NewProblem(http.StatusServiceUnavailable,
			"The object "+stray.Name+" in the store of the log is not a change. Nothing was changed. "+
				"Revocations and bans act. Move it away.")
	case errors.As(err, &unconfirmed):
		return unconfirmedProblem(unconfirmed)
	case errors.As(err, &p):
		return p
	case errors.As(err, &invalid):
		return rest.Unprocessable(schema.InBody(invalid.Fields, "")...)
	case errors.As(err, &file) && file.TooMany:
		return rest.NewProblem(http.StatusBadRequest,
			"The file has more fields or values than any policy can have: see errors.", fileDetails(file)...)
	case errors.As(err, &file):
		return rest.Unprocessable(fileDetails(file)...)
	case errors.Is(err, records.ErrCursor):
		return rest.Invalid("query.after", "is not a position in this list; start from the first page")
	case errors.Is(err, registry.ErrReused):
		return rest.Invalid("header.Idempotency-Key", "was sent with another request before: send a new one")
	case errors.As(err, &wrongToken):
		return rest.Invalid("body."+wrongToken.Field, wrongToken.Message)
	case errors.As(err, &refused):
		return refusal(refused)
	}
	for _, known := range knownErrors {
		if errors.Is(err, known.err) {
			return rest.NewProblem(known.status, known.detail)
		}
	}
	a.Log.Error("api: "+operation, "cause", err)
	return rest.NewProblem(http.StatusServiceUnavailable, "Valkey is unavailable. Try again in a moment.")
}

var knownErrors = []struct {
	err    error
	status int
	detail string
}{
	{crossing.ErrNoTarget, http.StatusConflict, "Nothing sends crossed limits: set CROSSINGS_TARGET."},
	{policy.ErrNotFound, http.StatusNotFound, "No such key."},
	{registry.ErrDeleted, http.StatusConflict,
		"The key that an earlier request with this Idempotency-Key created was deleted. To create another, " +
			"send a new Idempotency-Key."},
	{policy.ErrConflict, http.StatusConflict,
		"Somebody else changed it at the same time. Nothing was saved. Send the request again."},
	{policy.ErrUnreadable, http.StatusConflict,
		"This version of Tidegate cannot read the key, which another version wrote. The key can only be " +
			"deleted."},
	{changes.ErrUnknown, http.StatusServiceUnavailable,
		"It is not known whether the change was saved. If it was, the audit shows it within 15 minutes. " +
			"Look there before you send the request again."},
	{changes.ErrAhead, http.StatusServiceUnavailable,
		"Valkey holds changes that this log lacks. Edits are refused. Bring the log back, or run " +
			"scripts/restore -take."},
	{changes.ErrStore, http.StatusServiceUnavailable,
		"The log of changes is unavailable. Nothing was changed. Revocations and bans of one key act. " +
			"Send the request again."},
	{changes.ErrLate, http.StatusServiceUnavailable,
		"The request took too long. Nothing was changed. Send the request again."},
	{records.ErrRange, http.StatusUnprocessableEntity,
		"Steps shorter than an hour are for at most 26 hours, and a response has at most 1,500 steps. " +
			"Choose another from, to or step."},
	{records.ErrNotKept, http.StatusUnprocessableEntity,
		"Not kept: calls are kept by the minute for 50 hours and by the hour for 30 days. Choose another " +
			"from, to or step."},
	{token.ErrNotFound, http.StatusNotFound, "No such token. It may have been revoked already."},
	{token.ErrByToken, http.StatusForbidden,
		"A token cannot create a token. Log in to the dashboard and create it on the settings page."},
	{token.ErrTooMany, http.StatusConflict, "The number of tokens is at its maximum. Revoke one first."},
}

func fileDetails(file *policydoc.InvalidError) []rest.Detail {
	all := make([]rest.Detail, len(file.Problems))
	for i, p := range file.Problems {
		all[i] = rest.Detail{Location: p.Field, Line: p.Line, Message: rest.Clip(p.Message)}
	}
	return all
}

func unconfirmedProblem(e *app.UnconfirmedError) *rest.Problem {
	p := rest.NewProblem(http.StatusConflict,
		"The change has warnings: see errors. Nothing was saved. Send accept=true to save it.")
	for _, text := range e.Warnings[:min(len(e.Warnings), rest.MaxErrors)] {
		p.Errors = append(p.Errors, rest.Detail{Location: "query.accept", Message: rest.Clip(text)})
	}
	return p
}

func refusal(r *app.RefusedError) *rest.Problem {
	p := rest.NewProblem(r.Status, r.Detail)
	p.Type, p.Title = r.Type, r.Title
	if r.RetryAfter > 0 {
		return p.RetryAfter(r.RetryAfter)
	}
	return p
}
