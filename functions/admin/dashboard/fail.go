package dashboard

import (
	"errors"
	"net/http"
	"strconv"

	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// problem is an error as people see it; the cause goes to the log only. Empty fields get
// the status's own words.
type problem struct {
	status  int
	heading string
	advice  string
	action  templates.Choice // the way on, unless it is the usual one
}

var problems = map[int]problem{
	http.StatusUnauthorized: {
		heading: "This needs a token", advice: "Send a machine token, which an editor makes in the settings: Authorization: Bearer tga_…",
	},
	http.StatusBadRequest:       {heading: "This request makes no sense here", advice: "The address or the form was changed on the way."},
	http.StatusNotFound:         {heading: "There is nothing here", advice: "The key may be gone, or the address mistyped."},
	http.StatusMethodNotAllowed: {heading: "This page cannot do that", advice: "It was asked for with a method that it does not know."},
	http.StatusRequestEntityTooLarge: {
		heading: "That was too long", advice: "The form is larger than any that this dashboard shows.",
	},
	http.StatusInternalServerError: {heading: "Something broke on our side", advice: "It was logged. Trying again may help."},
	http.StatusServiceUnavailable:  {heading: "The store does not answer", advice: "Limits and usage live there. Try again in a moment."},
}

// storeRetryAfter is when to ask again for what the store did not answer, in seconds.
// Nobody knows when it is back.
const storeRetryAfter = "5"

// fail answers with an error page, or to the API's callers with JSON.
func (rd *renderer) fail(w http.ResponseWriter, r *http.Request, p problem) {
	words := problems[p.status]
	if p.heading == "" {
		p.heading = words.heading
	}
	if p.advice == "" {
		p.advice = words.advice
	}
	if p.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", storeRetryAfter)
	}
	if rd.isAPI(r) {
		rd.failAPI(w, p)
		return
	}
	if p.action.Text == "" {
		p.action = rd.wayOn(r, p.status)
	}
	page := templates.ErrorPage{
		Page:    rd.barePage(r, p.heading),
		Status:  strconv.Itoa(p.status),
		Heading: p.heading,
		Advice:  p.advice,
		Action:  p.action,
	}
	rd.render(w, r, p.status, templates.Error(page))
}

func (rd *renderer) wayOn(r *http.Request, status int) templates.Choice {
	if status == http.StatusServiceUnavailable && r.Method == http.MethodGet {
		return templates.Choice{Text: "Try again", Address: rd.localPath(r.URL.RequestURI())}
	}
	return templates.Choice{Text: "Go to the keys", Address: rd.path("/keys")}
}

// failStore answers an error of the store: 404 for what does not exist, 400 for a
// question it does not understand, 503 for the rest.
func (rd *renderer) failStore(w http.ResponseWriter, r *http.Request, operation string, err error) {
	var invalid *policy.InvalidError
	switch {
	case errors.Is(err, policy.ErrNotFound):
		rd.fail(w, r, problem{status: http.StatusNotFound, heading: "No such key"})
	case errors.As(err, &invalid):
		rd.fail(w, r, problem{status: http.StatusBadRequest})
	default:
		rd.log.Error(operation, "cause", err)
		rd.fail(w, r, problem{status: http.StatusServiceUnavailable})
	}
}
