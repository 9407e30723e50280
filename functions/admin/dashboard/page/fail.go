package page

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/problem"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// Problem is an error as users see it. It must not contain the cause, which belongs to
// the log. A handler returns a Problem, or an error that Failed made.
type Problem struct { //nolint:errname // as rest.Problem, its like on the side of the API
	Status  int
	Heading string           // empty for the status's default
	Advice  string           // empty for the status's default
	Action  templates.Choice // the link below the advice; zero for the default
	Acted   bool             // the change is made, so the form must not be sent again
}

func (p Problem) Error() string { return cmp.Or(p.Heading, problems[p.Status].Heading) }

// problems holds the default heading and advice of each status.
var problems = map[int]Problem{
	http.StatusUnauthorized: {Heading: "Token required",
		Advice: "Create a machine token in Settings and send it as Authorization: Bearer tga_…"},
	http.StatusBadRequest: {Heading: "Invalid request",
		Advice: "The address or the form is invalid. Reload the page and try again."},
	http.StatusNotFound: {Heading: "Not found",
		Advice: "Check the address. What was here may have been deleted."},
	http.StatusMethodNotAllowed: {Heading: "Method not allowed",
		Advice: "This address does not accept the HTTP method."},
	http.StatusRequestEntityTooLarge: {Heading: "Form too large",
		Advice: "Shorten your input and try again."},
	http.StatusInternalServerError: {Heading: "Internal error", Advice: "The error was logged. Try again."},
	http.StatusServiceUnavailable:  {Heading: "Valkey is unavailable", Advice: Outage},
}

// Outage says what becomes of calls while Valkey does not answer.
const Outage = "Until it is back, each plan's outage setting applies."

// StoreRetryAfter is the Retry-After of a response while Valkey is unavailable, in
// seconds. It is a guess.
const StoreRetryAfter = "5"

// Resume is the value of the button that shows a form again as it was typed, without a
// save. The page at ResumePath sends it with what the browser kept of the form.
const (
	Resume     = "resume"
	ResumePath = "/resume"
)

// Fail responds to an error that a handler returned: with a page, or with JSON if the
// request is for the API. A 503 page offers to resume the sent form unless the problem
// says Acted.
func (rd *Renderer) Fail(w http.ResponseWriter, r *http.Request, err error) {
	p, ok := errors.AsType[Problem](err)
	if !ok {
		p = rd.ProblemOf(err)
	}
	p.Heading = cmp.Or(p.Heading, problems[p.Status].Heading)
	p.Advice = cmp.Or(p.Advice, problems[p.Status].Advice)
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", StoreRetryAfter)
	}
	if rd.IsAPI(r) {
		rd.failAPI(w, p)
		return
	}
	if p.Action.Text == "" {
		p.Action = templates.Choice{Text: "Go to Overview", Address: rd.Path("/")}
		if p.Status == http.StatusServiceUnavailable && r.Method == http.MethodGet {
			p.Action = templates.Choice{Text: "Try again", Address: rd.LocalPath(r.URL.RequestURI())}
		}
	}
	page := templates.ErrorPage{
		Page:    rd.navigable(r, p.Heading),
		Status:  strconv.Itoa(p.Status),
		Heading: p.Heading,
		Advice:  p.Advice,
		Action:  p.Action,
	}
	if p.Status == http.StatusServiceUnavailable {
		rd.leaveOpen(r, &page)
	}
	if p.Status == http.StatusServiceUnavailable && !p.Acted &&
		rd.Resumes != nil && rd.Resumes(r) {
		page.Resume = rd.Path(ResumePath)
	}
	if rd.Render(w, r, p.Status, templates.Error(page)) == nil {
		return
	}
	http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
}

// leaveOpen keeps the navigation on the page of an outage, in which nobody can tell whose
// session the request has, and lets the page try again by itself.
func (rd *Renderer) leaveOpen(r *http.Request, p *templates.ErrorPage) {
	p.Page.Health = ""
	if _, err := r.Cookie(rd.Session.Cookie.Name); err == nil {
		p.Page.Nav = rd.Nav(r)
	}
	p.Page.Retries = r.Method == http.MethodGet
}

// failAPI responds with a problem of RFC 9457.
func (rd *Renderer) failAPI(w http.ResponseWriter, p Problem) {
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(p.Status), p.Status, p.Heading + ". " + p.Advice})
	if err != nil { // impossible: every string and number can be encoded
		rd.log.Error("encode problem", "cause", err)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // fails only after the client disconnected
}

// IsAPI reports whether the request is for the API, whose responses are JSON.
func (rd *Renderer) IsAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, rd.Path("/api/"))
}

// ParseForm parses the request's form.
func ParseForm(r *http.Request) error {
	err := r.ParseForm()
	if err == nil {
		return nil
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return Problem{Status: http.StatusRequestEntityTooLarge}
	}
	return Problem{Status: http.StatusBadRequest}
}

// failure is an error of the store with the operation that failed, for the log.
type failure struct {
	error
	operation string
}

func (f *failure) Unwrap() error { return f.error }

// Failed adds the operation to an error of the store. Fail logs it.
func Failed(operation string, err error) error { return &failure{err, operation} }

// ProblemOf returns what users see of an error: 400 for an invalid argument, else that of
// problem.Of, with what is known of an outage of Valkey. It logs the cause if that says so.
func (rd *Renderer) ProblemOf(err error) Problem {
	if _, invalid := errors.AsType[*policy.InvalidError](err); invalid {
		return Problem{Status: http.StatusBadRequest}
	}
	shown, known := problem.Of(err)
	p := Problem{Status: shown.Status, Heading: shown.Heading, Advice: shown.Advice, Acted: shown.Acted}
	if !known {
		p.Advice = Outage
		if text := rd.outage.Load(); text != nil {
			p.Advice = *text
		}
		if at := rd.answered.Load(); at > 0 {
			p.Advice = "Last answer: " + Instant(time.Unix(at, 0)).Text + ". " + p.Advice
		}
	}
	if shown.Log {
		operation := "answer request"
		if f, ok := errors.AsType[*failure](err); ok {
			operation = f.operation
		}
		rd.log.Error(operation, "cause", err)
	}
	return p
}
