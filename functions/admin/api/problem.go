package api

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
)

// Problem is an error as RFC 9457 has it. What caused it goes to the log only.
type Problem struct { //nolint:errname // its name is that of the schema in the document
	Type   string   `json:"type" doc:"URI that names the kind of problem; about:blank when the status says all" example:"about:blank"`
	Title  string   `json:"title" doc:"The status in words, or the kind of problem"`
	Status int      `json:"status" doc:"HTTP status"`
	Detail string   `json:"detail" doc:"What is wrong and what to do"`
	Errors []Detail `json:"errors,omitempty" doc:"What is wrong, place by place"`
	// Current and Given tell a stale change apart.
	Current *int64 `json:"currentVersion,omitempty" doc:"With 412: the version there is"`
	Given   *int64 `json:"givenVersion,omitempty" doc:"With 412: the version that the change was based on"`

	header http.Header
}

// Detail is what is wrong at one place.
type Detail struct {
	Location string `json:"location,omitempty" doc:"Where: body.limits[0].window, query.count, path.id" example:"body.limits[0].window"`
	Line     int    `json:"line,omitempty" doc:"Line of a file, from 1"`
	Message  string `json:"message"`
}

const (
	aboutBlank = "about:blank"
	maxErrors  = 50 // that are told
)

func problem(status int, detail string, errs ...Detail) *Problem {
	return &Problem{Type: aboutBlank, Title: http.StatusText(status), Status: status, Detail: detail,
		Errors: errs, header: http.Header{}}
}

// Error is for the log.
func (p *Problem) Error() string { return strconv.Itoa(p.Status) + " " + p.Detail }

// GetStatus tells huma the status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders tells huma the fields of the answer.
func (p *Problem) GetHeaders() http.Header { return p.header }

// ContentType tells huma the type of the body.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// ownErrors makes huma write a Problem for what it finds wrong, and read strictly. These
// are settings of the whole program.
var ownErrors = sync.OnceFunc(func() {
	huma.ValidateStrictCasing, huma.DefaultArrayNullable = true, false
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		p := problem(status, words[status])
		if p.Detail == "" {
			p.Detail = capital(message) + "."
		}
		for _, err := range errs {
			if len(p.Errors) == maxErrors {
				break
			}
			p.Errors = append(p.Errors, detailOf(err))
		}
		return p
	}
})

// words of what huma finds wrong.
var words = map[int]string{
	http.StatusUnprocessableEntity:   "The request is not valid: see errors.",
	http.StatusRequestEntityTooLarge: "The body is too large.",
	http.StatusUnsupportedMediaType: "The body is of a type that is not understood here: send " +
		"application/json.",
	http.StatusInternalServerError: "Internal error. It was logged.",
}

// detailOf leaves out the value, which may be a secret or long.
func detailOf(err error) Detail {
	var d huma.ErrorDetailer
	if errors.As(err, &d) {
		e := d.ErrorDetail()
		return Detail{Location: e.Location, Message: clip(e.Message)}
	}
	return Detail{Message: clip(err.Error())}
}

const maxMessage = 300

func clip(text string) string {
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

func capital(text string) string {
	if text == "" {
		return "This cannot be answered"
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// problem tells the public of an error. What it does not know is the store's, and is
// logged.
func (a *api) problem(operation string, err error) error {
	var p *Problem
	var invalid *policy.InvalidError
	var file *policydoc.InvalidError
	var wrongToken *token.InvalidError
	var refused *app.RefusedError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &invalid):
		return unprocessable(inBody(invalid, "", "")...)
	case errors.As(err, &file) && file.TooMany:
		return problem(http.StatusBadRequest,
			"The file has more fields or values than any policy: see errors.", fileDetails(file)...)
	case errors.As(err, &file):
		return unprocessable(fileDetails(file)...)
	case errors.As(err, &wrongToken):
		return unprocessable(Detail{Location: "body." + wrongToken.Field, Message: wrongToken.Message})
	case errors.As(err, &refused):
		return refusal(refused)
	}
	for _, known := range knownErrors {
		if errors.Is(err, known.err) && !errors.Is(err, policy.ErrUnfinished) {
			p = problem(known.status, known.detail)
			if known.status == http.StatusServiceUnavailable {
				p.header.Set("Retry-After", "5")
			}
			return p
		}
	}
	a.Log.Error("api: "+operation, "cause", err)
	p = problem(http.StatusServiceUnavailable,
		"Valkey is not responding. Try again in a moment. Limits stay in force.")
	if errors.Is(err, policy.ErrUnfinished) {
		p.Detail = "Saved, not on every shard yet: some checks may obey the version before. POST " + Prefix +
			"/policy/sync finishes it."
	}
	p.header.Set("Retry-After", "5")
	return p
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
	{audit.ErrUnsafe, http.StatusServiceUnavailable,
		"The change is made, but not safe yet: the journal gets it when it answers again."},
	{audit.ErrPosition, http.StatusUnprocessableEntity,
		"This is no position in the audit: start from the newest entry."},
	{usage.ErrSpan, http.StatusUnprocessableEntity,
		"Usage is kept by the minute for 24 hours and by the hour for 30 days, and comes in 1,500 steps at " +
			"most: choose another from, to or step."},
	{token.ErrNotFound, http.StatusNotFound, "There is no such token. It may have been revoked already."},
	{token.ErrTooMany, http.StatusConflict, "There are as many tokens as there may be: revoke one first."},
}

func unprocessable(errs ...Detail) *Problem {
	return problem(http.StatusUnprocessableEntity, words[http.StatusUnprocessableEntity],
		errs[:min(len(errs), maxErrors)]...)
}

// inBody says where the fields stand in the body: without the prefix cut, and behind the
// prefix add.
func inBody(invalid *policy.InvalidError, cut, add string) []Detail {
	all := make([]Detail, len(invalid.Fields))
	for i, f := range invalid.Fields {
		all[i] = Detail{Location: "body." + add + strings.TrimPrefix(f.Field, cut), Message: clip(f.Message)}
	}
	return all
}

func fileDetails(file *policydoc.InvalidError) []Detail {
	all := make([]Detail, len(file.Problems))
	for i, p := range file.Problems {
		all[i] = Detail{Location: p.Field, Line: p.Line, Message: clip(p.Message)}
	}
	return all
}

func refusal(r *app.RefusedError) *Problem {
	p := problem(r.Status, r.Detail)
	p.Type, p.Title = r.Type, r.Title
	if r.RetryAfter > 0 {
		p.header.Set("Retry-After", strconv.FormatInt(r.RetryAfter, 10))
	}
	if r.Status == http.StatusServiceUnavailable {
		p.header.Set("Retry-After", "5")
	}
	return p
}
