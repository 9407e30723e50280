package api

import (
	"errors"
	"net/http"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/policydoc"
	"tidegate/functions/admin/problem"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
)

// problem returns the problem that answers an error: that of its fields, or of problem.Of.
func (a *api) problem(operation string, err error) error {
	var p *rest.Problem
	var invalid *policy.InvalidError
	var file *policydoc.InvalidError
	var wrongToken *token.InvalidError
	var refused *app.RefusedError
	var unconfirmed *app.UnconfirmedError
	switch {
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
	shown, _ := problem.Of(err)
	if shown.Log {
		a.Log.Error("api: "+operation, "cause", err)
	}
	return rest.NewProblem(shown.Status, shown.Heading+". "+shown.Advice)
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
