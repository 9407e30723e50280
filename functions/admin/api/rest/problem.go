package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"tidegate/functions/admin/policydoc"
)

// Problem is an error in the form of RFC 9457. It does not contain the cause, which is
// only logged.
type Problem struct { //nolint:errname // the OpenAPI schema has this name
	Type   string   `json:"type" doc:"URI of the problem type; about:blank if the status is enough" example:"about:blank"`
	Title  string   `json:"title" doc:"Text of the status, or of the problem type"`
	Status int      `json:"status" doc:"HTTP status"`
	Detail string   `json:"detail" doc:"What is wrong and what to do"`
	Errors []Detail `json:"errors,omitempty" doc:"One entry for each invalid value"`
	// Current and Given are set for a change with a stale version.
	Current *int64 `json:"currentVersion,omitempty" doc:"With 412: the current version"`
	Given   *int64 `json:"givenVersion,omitempty" doc:"With 412: the version that the change was based on"`

	header http.Header
}

// Detail is an error at one place of the request.
type Detail struct {
	Location string `json:"location,omitempty" doc:"Place of the invalid value, such as query.count or path.id" example:"body.limits[0].window"`
	Line     int    `json:"line,omitempty" doc:"Line of the file, from 1"`
	Message  string `json:"message"`
}

// AboutBlank is the type of a problem that its status describes completely.
const AboutBlank = "about:blank"

// MaxErrors bounds Problem.Errors.
const MaxErrors = 50

// retryAfter is the Retry-After, in seconds, while Valkey or the log of changes is unavailable.
const retryAfter = 5

// NewProblem returns a problem whose title is the text of the status. With 503 it sets
// Retry-After.
func NewProblem(status int, detail string, errs ...Detail) *Problem {
	p := &Problem{Type: AboutBlank, Title: http.StatusText(status), Status: status, Detail: detail,
		Errors: errs, header: http.Header{}}
	if status == http.StatusServiceUnavailable {
		return p.RetryAfter(retryAfter)
	}
	return p
}

// Error returns the text for the log.
func (p *Problem) Error() string { return strconv.Itoa(p.Status) + " " + p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders implements huma.HeadersError: the answer gets these fields.
func (p *Problem) GetHeaders() http.Header { return p.header }

// RetryAfter sets the Retry-After field and returns the problem.
func (p *Problem) RetryAfter(seconds int64) *Problem {
	p.header.Set("Retry-After", strconv.FormatInt(seconds, 10))
	return p
}

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// useProblems makes huma answer its own errors with a Problem, and validate strictly.
// Both are settings of the whole program.
var useProblems = sync.OnceFunc(func() {
	huma.ValidateStrictCasing, huma.DefaultArrayNullable = true, false
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		p := NewProblem(status, statusDetails[status])
		if p.Detail == "" {
			p.Detail = capital(message) + "."
		}
		for _, err := range errs {
			if len(p.Errors) == MaxErrors {
				break
			}
			p.Errors = append(p.Errors, detailOf(err))
		}
		return p
	}
})

// statusDetails replaces huma's messages.
var statusDetails = map[int]string{
	http.StatusUnprocessableEntity:   "The request is not valid: see errors.",
	http.StatusRequestEntityTooLarge: "The body is too large.",
	http.StatusUnsupportedMediaType:  "The type of the body is not supported: send application/json.",
	http.StatusInternalServerError:   "Internal error. It was logged.",
}

// notBlank is huma's message about a text that a pattern forbids to be blank. A description
// of the pattern would change it, but is no keyword of JSON Schema.
var notBlank = fmt.Sprintf(validation.MsgExpectedMatchPattern, `\S`)

// detailOf converts an error of huma. It omits the value, which may be a secret or long.
func detailOf(err error) Detail {
	var d huma.ErrorDetailer
	if errors.As(err, &d) {
		e := d.ErrorDetail()
		switch {
		case strings.HasPrefix(e.Message, "invalid date/time for format"): // names Go's layout
			e.Message = "must be a time of RFC 3339, such as 2026-01-02T15:04:05Z"
		case e.Message == notBlank:
			e.Message = "must be text that is not blank"
		}
		name := e.Location[strings.LastIndexByte(e.Location, '.')+1:]
		instead := policydoc.Instead(name)
		if instead != "" && e.Message == validation.MsgUnexpectedProperty {
			e.Message += ": " + instead
		}
		return Detail{Location: e.Location, Message: Clip(e.Message)}
	}
	return Detail{Message: Clip(err.Error())}
}

const maxMessage = 300 // bytes

// Clip shortens a message that quotes the request.
func Clip(text string) string {
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

func capital(text string) string {
	if text == "" {
		return "The request failed"
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// Invalid returns the 422 problem of an error at one place.
func Invalid(location, message string) *Problem {
	return Unprocessable(Detail{Location: location, Message: message})
}

// Unprocessable returns the 422 problem of errors in the request.
func Unprocessable(errs ...Detail) *Problem {
	return NewProblem(http.StatusUnprocessableEntity, statusDetails[http.StatusUnprocessableEntity],
		errs[:min(len(errs), MaxErrors)]...)
}
