package server

import (
	"errors"
	"net/http"

	"tidegate/functions/admin/auth/oidc"
	"tidegate/functions/admin/auth/throttle"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/web/templates"
)

// startProviderLogin redirects the browser to the provider. The page has a link and no
// form, since its policy forbids forms to other sites.
func (s *server) startProviderLogin(w http.ResponseWriter, r *http.Request) {
	if s.Provider == nil {
		s.Fail(w, r, page.Problem{Status: http.StatusNotFound})
		return
	}
	attempt, ok := s.takeProvider(w, r)
	if !ok {
		return
	}
	address, sealed, err := s.Provider.Start(r.Context(), s.LocalPath(r.URL.Query().Get("next")))
	if err != nil {
		s.failProvider(w, r, err)
		return
	}
	if err := s.Logins.ForgiveProvider(r.Context(), attempt); err != nil {
		s.FailStore(w, r, "count login", err)
		return
	}
	http.SetCookie(w, s.cookie(s.flowCookieName(), sealed, oidc.FlowLife))
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// takeProvider counts a step of a log-in at the provider, which may hold this function for
// seconds. It answers the request and reports false if the address made too many.
func (s *server) takeProvider(w http.ResponseWriter, r *http.Request) (throttle.Attempt, bool) {
	attempt, err := s.Logins.TakeProvider(r.Context(), r.RemoteAddr)
	switch {
	case err != nil:
		s.FailStore(w, r, "count login", err)
	case !attempt.Allowed:
		s.refuseThrottled(w, r, attempt.RetryAfter)
	}
	return attempt, attempt.Allowed
}

// flowCookieName returns the name of the cookie of a log-in in progress. The cookie must
// be Lax, since the browser sends it when the provider redirects here.
func (s *server) flowCookieName() string { return s.cookieName("-login") }

// finishProviderLogin handles the provider's answer. It always deletes the cookie, so
// that an answer counts once.
func (s *server) finishProviderLogin(w http.ResponseWriter, r *http.Request) {
	if s.Provider == nil {
		s.Fail(w, r, page.Problem{Status: http.StatusNotFound})
		return
	}
	attempt, ok := s.takeProvider(w, r)
	if !ok {
		return
	}
	sealed := ""
	if c, err := r.Cookie(s.flowCookieName()); err == nil {
		sealed = c.Value
	}
	http.SetCookie(w, s.cookie(s.flowCookieName(), "", -1))
	identity, err := s.Provider.Finish(r.Context(), sealed, r.URL.Query())
	if err != nil {
		s.failProvider(w, r, err)
		return
	}
	if err := s.Logins.ForgiveProvider(r.Context(), attempt); err != nil {
		s.FailStore(w, r, "count login", err)
		return
	}
	s.startSession(w, r, identity.Actor, s.Provider.Fingerprint(), s.LocalPath(identity.Next))
}

// failProvider shows what the user can do, and logs the cause.
func (s *server) failProvider(w http.ResponseWriter, r *http.Request, err error) {
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
		s.recordRefusedLogin(r, "")
		p.Status, p.Heading = http.StatusForbidden, s.Provider.Host()+" did not log you in"
		p.Advice = "Reason: " + page.Clip(refused.Code, 100) + "."
	case errors.As(err, &roleless):
		s.recordRefusedLogin(r, "")
		p.Status, p.Heading, p.Advice = http.StatusForbidden, "You have no role here",
			s.noRoleAdvice(roleless)
	case errors.Is(err, oidc.ErrToken):
		s.recordRefusedLogin(r, "")
		p.Status, p.Heading = http.StatusForbidden, "Invalid answer from "+s.Provider.Host()
		p.Advice = "You are not logged in. Try again, or ask an administrator."
	default:
		p.Status, p.Heading = http.StatusBadGateway, s.Provider.Host()+" is not responding"
		p.Advice = "You cannot log in with it right now. Try again soon."
	}
	s.Fail(w, r, p)
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
