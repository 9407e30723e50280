package dashboard

import (
	"errors"
	"net/http"
	"strings"

	"tidegate/functions/admin/access"
	"tidegate/functions/admin/oidc"
	"tidegate/web/templates"
)

// startProviderLogin sends the browser to the provider. It is a link, not a form: a page's policy would keep a form from going there.
func (d *dashboard) startProviderLogin(w http.ResponseWriter, r *http.Request) {
	if d.Provider == nil {
		d.fail(w, r, problem{status: http.StatusNotFound})
		return
	}
	address, sealed, err := d.Provider.Start(r.Context(), d.localPath(r.URL.Query().Get("next")))
	if err != nil {
		d.failProvider(w, r, err)
		return
	}
	http.SetCookie(w, d.flowCookie(sealed, int(oidc.FlowLife.Seconds())))
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// flowCookie must come back when the provider's page leads here, so it is Lax.
func (d *dashboard) flowCookie(sealed string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: d.cookieName("-login"), Value: sealed, Path: d.path("/"), MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

// finishProviderLogin reads the provider's answer, once: whatever it is, the browser forgets the login that it began.
func (d *dashboard) finishProviderLogin(w http.ResponseWriter, r *http.Request) {
	if d.Provider == nil {
		d.fail(w, r, problem{status: http.StatusNotFound})
		return
	}
	sealed := ""
	if c, err := r.Cookie(d.flowCookie("", 0).Name); err == nil {
		sealed = c.Value
	}
	http.SetCookie(w, d.flowCookie("", -1))
	identity, err := d.Provider.Finish(r.Context(), sealed, r.URL.Query())
	if err != nil {
		d.failProvider(w, r, err)
		return
	}
	d.enter(w, r, identity.Actor, d.Provider.Fingerprint(), d.localPath(identity.Next))
}

// failProvider tells people what they can do about it; the cause goes to the log.
func (d *dashboard) failProvider(w http.ResponseWriter, r *http.Request, err error) {
	d.Log.Warn("login at the provider failed", "error", err)
	again := templates.Choice{Text: "Back to the login", Address: d.path("/login")}
	p := problem{action: again}
	var refused *oidc.RefusedError
	var roleless *oidc.NoRoleError
	switch {
	case errors.Is(err, oidc.ErrFlow):
		p.status, p.heading = http.StatusBadRequest, "This login was not begun here"
		p.advice = "It began in another browser or tab, took longer than ten minutes, or was finished already. Begin again."
	case errors.As(err, &refused):
		d.tellRefused(r, "")
		p.status, p.heading = http.StatusForbidden, d.Provider.Host()+" did not log you in"
		p.advice = "It says: " + clip(refused.Code, 100) + "."
	case errors.As(err, &roleless):
		d.tellRefused(r, "")
		p.status, p.heading, p.advice = http.StatusForbidden, "You have no role here", d.rolelessWords(roleless)
	case errors.Is(err, oidc.ErrToken):
		d.tellRefused(r, "")
		p.status, p.heading = http.StatusForbidden, "The answer of "+d.Provider.Host()+" does not hold"
		p.advice = "Nobody was logged in. Begin again; if it stays so, tell whoever runs this dashboard."
	default:
		p.status, p.heading = http.StatusBadGateway, d.Provider.Host()+" does not answer"
		p.advice = "Logins there do not work at the moment. Try again soon."
	}
	d.fail(w, r, p)
}

func (d *dashboard) rolelessWords(e *oidc.NoRoleError) string {
	what := "sent no claim “" + clip(e.Claim, 100) + "” for you."
	if e.Present {
		what = "sent a claim “" + clip(e.Claim, 100) + "” for you, but nothing in it means viewer or editor."
	}
	return d.Provider.Host() + " knows you, and " + what + " Ask whoever runs this dashboard."
}

// loggedOut is where to go after the logout; whoever came from the provider is told that they are still logged in there.
func (d *dashboard) loggedOut(r *http.Request) string {
	if strings.HasPrefix(access.From(r.Context()).ID, "oidc:") {
		return d.path("/login?ended=oidc")
	}
	return d.path("/login")
}

// endedWords offers to log out at the provider too.
func (d *dashboard) endedWords(r *http.Request) *templates.Ended {
	return &templates.Ended{
		Host:    d.Provider.Host(),
		Address: d.Provider.LogoutURL(r.Context(), d.PublicURL+"/login"),
	}
}
