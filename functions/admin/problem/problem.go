// Package problem says in words what users see of an error, on pages and in the API.
package problem

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/changes"
	"tidegate/internal/crossing"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
)

// Problem is what a user sees of an error, on a page and in the API. It does not have the
// cause, which belongs to the log.
type Problem struct {
	Status  int
	Heading string
	Advice  string
	Acted   bool // the change may be made, so that it must not be sent again
	Log     bool // the cause belongs to the log: Valkey failed, or a person must act
}

// Of returns the problem of an error. It takes an unknown error for one of Valkey,
// and reports false.
func Of(err error) (Problem, bool) {
	if damaged, ok := errors.AsType[*changes.DamagedError](err); ok {
		number := strconv.FormatUint(damaged.Number, 10)
		return Problem{Status: http.StatusServiceUnavailable,
			Heading: "Change " + number + " of the log is missing or damaged",
			Advice: "Nothing was changed. Revocations and bans act. Bring its object back, or run " +
				"scripts/restore -void " + number + "."}, true
	}
	if stray, ok := errors.AsType[*changes.StrayError](err); ok {
		return Problem{Status: http.StatusServiceUnavailable,
			Heading: stray.Name + " in the store of the log is not a change",
			Advice:  "Nothing was changed. Revocations and bans act. Move it away."}, true
	}
	for _, known := range problems {
		if errors.Is(err, known.err) {
			known.Status = cmp.Or(known.Status, http.StatusServiceUnavailable)
			return known.Problem, true
		}
	}
	return Problem{Status: http.StatusServiceUnavailable, Heading: "Valkey is unavailable",
		Advice: "Try again in a moment.", Log: true}, false
}

// problems have the status 503 unless they say another.
var problems = []struct {
	err error
	Problem
}{
	{policy.ErrNotFound, Problem{Status: http.StatusNotFound, Heading: "Key not found",
		Advice: "Check the id. The key may have been deleted."}},
	{policy.ErrConflict, Problem{Status: http.StatusConflict,
		Heading: "Somebody else changed it at the same time",
		Advice:  "Nothing was saved. Try again."}},
	{policy.ErrUnreadable, Problem{Status: http.StatusConflict,
		Heading: "Another version of Tidegate wrote this key, which this one cannot read",
		Advice:  "The key can only be deleted."}},
	{registry.ErrDeleted, Problem{Status: http.StatusConflict,
		Heading: "The key that an earlier request with this Idempotency-Key created was deleted",
		Advice:  "To create another, send a new Idempotency-Key."}},
	{changes.ErrUnknown, Problem{Heading: "It is not known whether this was saved",
		Advice: "If it was, the audit shows it within 15 minutes. Look there before you try again.",
		Acted:  true, Log: true}},
	{changes.ErrAhead, Problem{Heading: "Valkey holds changes that this log lacks",
		Advice: "Edits are refused. Bring the log back, or run scripts/restore -take.", Log: true}},
	{changes.ErrStore, Problem{Heading: "The log of changes is unavailable",
		Advice: "Nothing was changed. Try again in a moment. Revocations and bans of one key still act."}},
	{changes.ErrLate, Problem{Heading: "The request took too long",
		Advice: "Nothing was changed. Try again."}},
	{records.ErrRange, Problem{Status: http.StatusUnprocessableEntity, Heading: "Too many steps",
		Advice: "Steps shorter than an hour are for at most 26 hours, and a response has at most 1,500 " +
			"steps. Choose another from, to or step."}},
	{records.ErrNotKept, Problem{Status: http.StatusUnprocessableEntity, Heading: "Not kept",
		Advice: "Calls are kept by the minute for 50 hours and by the hour for 30 days. Choose another " +
			"from, to or step."}},
	{token.ErrNotFound, Problem{Status: http.StatusNotFound, Heading: "No such token",
		Advice: "It may have been revoked already."}},
	{token.ErrByToken, Problem{Status: http.StatusForbidden, Heading: "A token cannot create a token",
		Advice: "Log in to the dashboard and create it on the settings page."}},
	{token.ErrTooMany, Problem{Status: http.StatusConflict,
		Heading: "The number of tokens is at its maximum", Advice: "Revoke one first."}},
	{crossing.ErrNoTarget, Problem{Status: http.StatusConflict, Heading: "Nothing sends crossed limits",
		Advice: "Set CROSSINGS_TARGET."}},
}
