package rest

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

// Problem is an error as RFC 9457 has it. What caused it goes to the log only.
type Problem struct { //nolint:errname // its name is that of the schema in the document
	Type   string   `json:"type" doc:"URI that names the kind of problem; about:blank when the status says all" example:"about:blank"`
	Title  string   `json:"title" doc:"The status in words, or the kind of problem"`
	Status int      `json:"status" doc:"HTTP status"`
	Detail string   `json:"detail" doc:"What is wrong and what to do"`
	Errors []Detail `json:"errors,omitempty" doc:"What is wrong, place by place"`
	// Current and Given are the versions of a stale change.
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

// AboutBlank is the type of a problem whose status says all.
const AboutBlank = "about:blank"

// MaxErrors bounds the errors of one problem.
const MaxErrors = 50

// retryAfter is how many seconds to wait while Valkey or the journal is away.
const retryAfter = 5

// NewProblem returns a problem whose title is the status in words. With 503 it asks the
// caller to wait.
func NewProblem(status int, detail string, errs ...Detail) *Problem {
	p := &Problem{Type: AboutBlank, Title: http.StatusText(status), Status: status, Detail: detail,
		Errors: errs, header: http.Header{}}
	if status == http.StatusServiceUnavailable {
		return p.RetryAfter(retryAfter)
	}
	return p
}

// Error is for the log.
func (p *Problem) Error() string { return strconv.Itoa(p.Status) + " " + p.Detail }

// GetStatus is the status, for huma.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders are the fields of the answer, for huma.
func (p *Problem) GetHeaders() http.Header { return p.header }

// RetryAfter asks the caller to wait so many seconds, and returns the problem.
func (p *Problem) RetryAfter(seconds int64) *Problem {
	p.header.Set("Retry-After", strconv.FormatInt(seconds, 10))
	return p
}

// ContentType is the type of the body, for huma.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// useProblems makes huma write a Problem for what it finds wrong, and read strictly.
// These are settings of the whole program.
var useProblems = sync.OnceFunc(func() {
	huma.ValidateStrictCasing, huma.DefaultArrayNullable = true, false
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		p := NewProblem(status, words[status])
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
		return Detail{Location: e.Location, Message: Clip(e.Message)}
	}
	return Detail{Message: Clip(err.Error())}
}

const maxMessage = 300

// Clip shortens a message that quotes what a caller sent.
func Clip(text string) string {
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

// Invalid is the answer to bad input at one place.
func Invalid(location, message string) *Problem {
	return Unprocessable(Detail{Location: location, Message: message})
}

// Unprocessable is the answer to bad input.
func Unprocessable(errs ...Detail) *Problem {
	return NewProblem(http.StatusUnprocessableEntity, words[http.StatusUnprocessableEntity],
		errs[:min(len(errs), MaxErrors)]...)
}

// Details collects what cannot be read of a body.
type Details []Detail

// Add notes an error at a place of the body; nil notes nothing.
func (d *Details) Add(location string, err error) {
	if err != nil {
		*d = append(*d, Detail{Location: "body." + location, Message: Clip(err.Error())})
	}
}

// Err is the answer to what was collected; nil when nothing is wrong.
func (d *Details) Err() error {
	if len(*d) == 0 {
		return nil
	}
	return Unprocessable(*d...)
}
