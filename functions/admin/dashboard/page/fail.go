package page

import (
	"errors"
	"net/http"
	"strconv"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// Problem is an error as people see it; the cause goes to the log only. Empty fields get
// the status's own words.
type Problem struct {
	Status  int
	Heading string
	Advice  string
	Action  templates.Choice // the way on, unless it is the usual one
	Acted   bool             // what was asked for was done, so that its form is not to be sent again
}

var problems = map[int]Problem{
	http.StatusUnauthorized: {
		Heading: "Token required",
		Advice:  "Send a machine token from Settings: Authorization: Bearer tga_…",
	},
	http.StatusBadRequest: {Heading: "Invalid request",
		Advice: "The address or the form is not valid."},
	http.StatusNotFound: {Heading: "Not found",
		Advice: "The key may be deleted, or the address mistyped."},
	http.StatusMethodNotAllowed: {Heading: "Method not allowed",
		Advice: "This page does not accept the method."},
	http.StatusRequestEntityTooLarge: {
		Heading: "Form too large", Advice: "Shorten the form and try again.",
	},
	http.StatusInternalServerError: {Heading: "Internal error", Advice: "The error is logged. Try again."},
	http.StatusServiceUnavailable: {Heading: "Valkey is not responding",
		Advice: "Try again in a moment. Limits stay in force."},
}

// StoreRetryAfter is when to ask again for what the store did not answer, in seconds.
// Nobody knows when it is back.
const StoreRetryAfter = "5"

// Fail answers with an error page, or to the API's callers with JSON.
func (rd *Renderer) Fail(w http.ResponseWriter, r *http.Request, p Problem) {
	words := problems[p.Status]
	if p.Heading == "" {
		p.Heading = words.Heading
	}
	if p.Advice == "" {
		p.Advice = words.Advice
	}
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", StoreRetryAfter)
	}
	if rd.IsAPI(r) {
		rd.failAPI(w, p)
		return
	}
	if p.Action.Text == "" {
		p.Action = rd.wayOn(r, p.Status)
	}
	page := templates.ErrorPage{
		Page:    rd.Bare(r, p.Heading),
		Status:  strconv.Itoa(p.Status),
		Heading: p.Heading,
		Advice:  p.Advice,
		Action:  p.Action,
	}
	if p.Status == http.StatusServiceUnavailable && !p.Acted {
		page.Kept = templates.Hidden{Name: KeptField, Value: rd.Keep(r)}
		page.Resume = rd.Path("/resume")
	}
	rd.Render(w, r, p.Status, templates.Error(page))
}

func (rd *Renderer) wayOn(r *http.Request, status int) templates.Choice {
	if status == http.StatusServiceUnavailable && r.Method == http.MethodGet {
		return templates.Choice{Text: "Try again", Address: rd.LocalPath(r.URL.RequestURI())}
	}
	return templates.Choice{Text: "Go to keys", Address: rd.Path("/keys")}
}

// FailStore answers an error of the store: 404 for what does not exist, 400 for a
// question it does not understand, 503 for the rest.
func (rd *Renderer) FailStore(w http.ResponseWriter, r *http.Request, operation string, err error) {
	var invalid *policy.InvalidError
	switch {
	case errors.Is(err, policy.ErrNotFound):
		rd.Fail(w, r, Problem{Status: http.StatusNotFound, Heading: "No such key"})
	case errors.As(err, &invalid):
		rd.Fail(w, r, Problem{Status: http.StatusBadRequest})
	case errors.Is(err, audit.ErrBehind):
		rd.Fail(w, r, Problem{
			Status: http.StatusServiceUnavailable, Heading: "Valkey lost changes",
			Advice: "Nothing was changed. Restore the lost changes, then save again.",
		})
	case errors.Is(err, audit.ErrJournalAway):
		rd.Fail(w, r, Problem{
			Status: http.StatusServiceUnavailable, Heading: "The journal does not answer",
			Advice: "Nothing was changed. Try again in a moment.",
		})
	case errors.Is(err, audit.ErrOlderAway):
		rd.Fail(w, r, Problem{
			Status: http.StatusServiceUnavailable, Heading: "The journal does not answer",
			Advice: "It has the older changes. Try again in a moment.",
		})
	case errors.Is(err, audit.ErrMayBeLost):
		rd.log.Error(operation, "cause", err)
		rd.Fail(w, r, Problem{
			Status: http.StatusServiceUnavailable, Heading: "Changed, but it may be lost",
			Advice: "Valkey stopped answering. Look, and repeat the change if it is not there.",
		})
	case errors.Is(err, audit.ErrUnsafe):
		rd.log.Error(operation, "cause", err)
		rd.Fail(w, r, Problem{
			Status: http.StatusServiceUnavailable, Heading: "Changed, but not safe yet",
			Advice: "The change acts. The journal gets it when it answers again.", Acted: true,
		})
	default:
		rd.log.Error(operation, "cause", err)
		rd.Fail(w, r, Problem{Status: http.StatusServiceUnavailable})
	}
}
