package server

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/oidc"
	"tidegate/functions/admin/auth/throttle"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/web/templates"
)

// startProviderLogin redirects the browser to the provider. The page has a link and no
// form, since its policy forbids forms to other sites.
func (s *server) startProviderLogin(w http.ResponseWriter, r *http.Request, attempt throttle.Attempt) error {
	address, sealed, err := s.Provider.Start(r.Context(), s.LocalPath(r.URL.Query().Get("next")))
	if err != nil {
		return s.providerProblem(r, err)
	}
	if err := s.Logins.ForgiveProvider(r.Context(), attempt); err != nil {
		return page.Failed("count login", err)
	}
	http.SetCookie(w, s.cookie(s.flowCookieName(), sealed, oidc.FlowLife))
	return page.Redirect(w, r, address)
}

// atProvider returns the handler of a step of a log-in at the provider. It counts the step,
// which may hold this function for seconds.
func (s *server) atProvider(
	step func(http.ResponseWriter, *http.Request, throttle.Attempt) error,
) auth.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.Provider == nil {
			return page.Problem{Status: http.StatusNotFound}
		}
		attempt, err := s.Logins.TakeProvider(r.Context(), r.RemoteAddr)
		if err != nil {
			return page.Failed("count login", err)
		}
		if !attempt.Allowed {
			return s.refuseThrottled(w, r, attempt.RetryAfter)
		}
		return step(w, r, attempt)
	}
}

// flowCookieName returns the name of the cookie of a log-in in progress. The cookie must
// be Lax, since the browser sends it when the provider redirects here.
func (s *server) flowCookieName() string { return s.cookieName("-login") }

// finishProviderLogin handles the provider's answer. It deletes the cookie of the login that
// the answer belongs to, so that an answer counts once; another login, as of a second tab,
// goes on. The reload of an answer that logged somebody in leads to the dashboard.
func (s *server) finishProviderLogin(w http.ResponseWriter, r *http.Request, attempt throttle.Attempt) error {
	sealed := ""
	if c, err := r.Cookie(s.flowCookieName()); err == nil {
		sealed = c.Value
	}
	if sealed == "" && auth.From(r.Context()).Known() {
		return page.Redirect(w, r, s.Path("/"))
	}
	identity, err := s.Provider.Finish(r.Context(), sealed, r.URL.Query())
	if !errors.Is(err, oidc.ErrFlow) {
		http.SetCookie(w, s.cookie(s.flowCookieName(), "", -1))
	}
	if err != nil {
		return s.providerProblem(r, err)
	}
	if err := s.Logins.ForgiveProvider(r.Context(), attempt); err != nil {
		return page.Failed("count login", err)
	}
	return s.startSession(w, r, identity.Actor, s.Provider.Fingerprint(), s.LocalPath(identity.Next))
}

// maxReason bounds the words of a provider on a page, in bytes.
const maxReason = 300

// providerProblem returns what the user can do, and logs the cause. A provider that says
// why is quoted.
func (s *server) providerProblem(r *http.Request, err error) error {
	s.Log.Warn("login at the provider failed", "cause", err,
		"answer", page.Clip(r.URL.Query().Get("error"), 100))
	p := page.Problem{Action: templates.Choice{Text: "Back to login", Address: s.Path("/login")}}
	var refused *oidc.RefusedError
	var roleless *oidc.NoRoleError
	var invalid *oidc.TokenError
	var setup *oidc.SetupError
	switch {
	case errors.Is(err, oidc.ErrFlow):
		p.Status, p.Heading = http.StatusBadRequest, "Login expired"
		p.Advice = "It was started in another browser or tab, took over ten minutes or is already " +
			"complete. Start again."
	case errors.Is(err, oidc.ErrUsed):
		s.refusedLogin("")
		p.Status, p.Heading = http.StatusBadRequest, "Login already used"
		p.Advice = "This answer of " + s.Provider.Host() + " was used before, or is too old. Start again."
	case errors.As(err, &refused):
		s.refusedLogin("")
		p.Status, p.Heading = http.StatusForbidden, s.Provider.Host()+" did not log you in"
		code := page.Clip(refused.Code, 100)
		p.Advice = "Reason: " + code + "."
		if refused.Description != "" {
			p.Advice = "Reason: " + page.Clip(refused.Description, maxReason) + " (" + code + ")"
		}
	case errors.As(err, &roleless):
		s.refusedLogin("")
		p.Status, p.Heading, p.Advice = http.StatusForbidden, "You have no role here",
			s.noRoleAdvice(roleless)
	case errors.As(err, &invalid):
		s.refusedLogin("")
		p.Status, p.Heading = http.StatusForbidden, "Invalid answer from "+s.Provider.Host()
		p.Advice = "You are not logged in: " + page.Clip(invalid.Why, maxReason) +
			". Try again, or ask an administrator."
	case errors.As(err, &setup):
		p.Status, p.Heading = http.StatusBadGateway, "Log-in with "+s.Provider.Host()+" is not set up"
		p.Advice = page.Clip(setup.Why, maxReason) + " Ask an administrator."
	default:
		p.Status, p.Heading = http.StatusBadGateway, s.Provider.Host()+" is not responding"
		p.Advice = "You cannot log in with it right now. Try again soon."
	}
	return p
}

// noRoleAdvice says what the provider sent. The values that give a role are only logged.
func (s *server) noRoleAdvice(e *oidc.NoRoleError) string {
	claim := "“" + page.Clip(e.Claim, 100) + "”"
	what := "sent no claim " + claim + " for you."
	switch {
	case e.Unverified:
		what = "does not say that it has verified your e-mail address. Verify it there and log in again."
	case e.Overage:
		what = "left the claim " + claim + " out, because you are in too many groups. " +
			"Let it send only groups that are assigned to this application, or application roles."
	case e.Shape != "":
		what = "sent " + e.Shape + " as the claim " + claim + ", so it has no values."
	case e.Near != "":
		what = "sent “" + e.Near + "” in the claim " + claim +
			", which differs in case or spaces from a value that gives a role."
	case e.Present:
		what = "sent " + quoted(e.Values, e.More) + " in the claim " + claim +
			", and none of it gives a role."
	}
	return s.Provider.Host() + " logged you in, but " + what + " Ask an administrator."
}

// quoted lists values in quotation marks, and how many more there are.
func quoted(values []string, more int) string {
	text := "“" + strings.Join(values, "”, “") + "”"
	if more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}
