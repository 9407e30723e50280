package server

import (
	"errors"
	"net/http"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/oidc"
	"tidegate/functions/admin/auth/throttle"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/web/templates"
)

// startProviderLogin redirects the browser to the provider. The page has a link and no
// form, since its policy forbids forms to other sites.
func (s *server) startProviderLogin(
	w http.ResponseWriter, r *http.Request, attempt throttle.Attempt,
) error {
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

// finishProviderLogin handles the provider's answer. It always deletes the cookie, so
// that an answer counts once.
func (s *server) finishProviderLogin(
	w http.ResponseWriter, r *http.Request, attempt throttle.Attempt,
) error {
	sealed := ""
	if c, err := r.Cookie(s.flowCookieName()); err == nil {
		sealed = c.Value
	}
	http.SetCookie(w, s.cookie(s.flowCookieName(), "", -1))
	identity, err := s.Provider.Finish(r.Context(), sealed, r.URL.Query())
	if err != nil {
		return s.providerProblem(r, err)
	}
	if err := s.Logins.ForgiveProvider(r.Context(), attempt); err != nil {
		return page.Failed("count login", err)
	}
	return s.startSession(w, r, identity.Actor, s.Provider.Fingerprint(), s.LocalPath(identity.Next))
}

// providerProblem returns what the user can do, and logs the cause.
func (s *server) providerProblem(_ *http.Request, err error) error {
	s.Log.Warn("login at the provider failed", "cause", err)
	p := page.Problem{Action: templates.Choice{Text: "Back to login", Address: s.Path("/login")}}
	var refused *oidc.RefusedError
	var roleless *oidc.NoRoleError
	switch {
	case errors.Is(err, oidc.ErrFlow):
		p.Status, p.Heading = http.StatusBadRequest, "Login expired"
		p.Advice = "It was started in another browser, took over ten minutes or is already complete. " +
			"Start again."
	case errors.As(err, &refused):
		s.refusedLogin("")
		p.Status, p.Heading = http.StatusForbidden, s.Provider.Host()+" did not log you in"
		p.Advice = "Reason: " + page.Clip(refused.Code, 100) + "."
	case errors.As(err, &roleless):
		s.refusedLogin("")
		p.Status, p.Heading, p.Advice = http.StatusForbidden, "You have no role here",
			s.noRoleAdvice(roleless)
	case errors.Is(err, oidc.ErrToken):
		s.refusedLogin("")
		p.Status, p.Heading = http.StatusForbidden, "Invalid answer from "+s.Provider.Host()
		p.Advice = "You are not logged in. Try again, or ask an administrator."
	default:
		p.Status, p.Heading = http.StatusBadGateway, s.Provider.Host()+" is not responding"
		p.Advice = "You cannot log in with it right now. Try again soon."
	}
	return p
}

func (s *server) noRoleAdvice(e *oidc.NoRoleError) string {
	what := "sent no claim “" + page.Clip(e.Claim, 100) + "” for you."
	switch {
	case e.Unverified:
		what = "has not verified your e-mail address. Verify it there and log in again."
	case e.Overage:
		what = "left the claim “" + page.Clip(e.Claim, 100) + "” out, because you are in too many groups. " +
			"Let it send only groups that are assigned to this application, or application roles."
	case e.Present:
		what = "sent a claim “" + page.Clip(e.Claim, 100) +
			"” for you, but none of its values gives a role."
	}
	return s.Provider.Host() + " logged you in, but " + what + " Ask an administrator."
}
