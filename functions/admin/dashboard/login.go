package dashboard

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"tidegate/functions/admin/access"
	"tidegate/functions/admin/password"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

// probeField says that the form was shown by us, with a cookie beside it that must have come back too.
const probeField = "probe"

func (d *dashboard) showLogin(w http.ResponseWriter, r *http.Request) {
	next := d.localPath(r.URL.Query().Get("next"))
	if access.From(r.Context()).Known() {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	http.SetCookie(w, d.probeCookie())
	page := d.loginPage(r, next)
	if r.URL.Query().Get("ended") == "oidc" && d.Provider != nil {
		page.Ended = d.endedWords(r)
	}
	d.render(w, r, http.StatusOK, templates.Login(page))
}

// probeCookie has the attributes of the session's cookie, so that a browser which drops one drops the other.
func (d *dashboard) probeCookie() *http.Cookie {
	return &http.Cookie{
		Name: d.cookieName("-probe"), Value: "1", Path: d.path("/"), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

// cookiesRefused reports that the browser was given the cookie with the form, and did not send it.
func (d *dashboard) cookiesRefused(r *http.Request) bool {
	_, err := r.Cookie(d.probeCookie().Name)
	return r.PostForm.Has(probeField) && err != nil
}

func (d *dashboard) loginPage(r *http.Request, next string) templates.LoginPage {
	p := templates.LoginPage{Page: d.barePage(r, "Log in"), Submit: d.path("/login"), Next: next, Password: !d.users.Empty()}
	if d.Provider != nil {
		p.Provider = templates.Choice{
			Text:    "Log in with " + d.Provider.Host(),
			Address: address(d.path("/login/oidc"), map[string][]string{"next": {next}}),
		}
	}
	return p
}

// login counts the attempt before it looks at the password, and gives it back when the password is right. Without the store nobody gets in.
func (d *dashboard) login(w http.ResponseWriter, r *http.Request) {
	if !d.parseForm(w, r) {
		return
	}
	if d.cookiesRefused(r) {
		http.SetCookie(w, d.probeCookie())
		d.refuseLogin(w, r, http.StatusBadRequest, "This browser did not keep our cookie, so a login would not last. The cookie travels over https alone: "+
			"at http addresses on this machine use Chrome or Firefox, since Safari drops it there; elsewhere use https, and allow cookies.")
		return
	}
	name := r.PostForm.Get("user")
	attempt, err := d.Logins.Take(r.Context(), r.RemoteAddr, name)
	if err != nil {
		d.failStore(w, r, "count login", err)
		return
	}
	if !attempt.Allowed {
		d.refuseSoon(w, r, attempt.RetryAfter)
		return
	}
	user, err := d.users.Authenticate(r.Context(), name, r.PostForm.Get("password"))
	if err == nil {
		err = d.Logins.Forgive(r.Context(), attempt)
	}
	switch {
	case errors.Is(err, password.ErrWrong):
		d.tellRefused(r, name)
		d.refuseLogin(w, r, http.StatusUnauthorized, "User or password is wrong.")
	case err != nil:
		d.failStore(w, r, "login", err)
	default:
		d.enter(w, r, user.Actor(), user.Fingerprint(), d.localPath(r.PostForm.Get("next")))
	}
}

// refuseSoon tells after how many whole seconds the same attempt is looked at.
func (d *dashboard) refuseSoon(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	d.Log.Warn("login throttled")
	seconds := int64((wait + time.Second - 1) / time.Second)
	w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	words := limiter.FormatWindow(time.Duration(seconds) * time.Second)
	d.refuseLogin(w, r, http.StatusTooManyRequests, "Too many attempts from your address. Try again in "+words+".")
}

// refuseLogin shows the form again, with what was typed but the password.
func (d *dashboard) refuseLogin(w http.ResponseWriter, r *http.Request, status int, why string) {
	page := d.loginPage(r, d.localPath(r.PostForm.Get("next")))
	page.User, page.Error = clip(r.PostForm.Get("user"), 200), why
	d.render(w, r, status, templates.Login(page))
}

func (d *dashboard) logout(w http.ResponseWriter, r *http.Request) {
	if err := d.sessions.Destroy(r.Context()); err != nil {
		d.failStore(w, r, "logout", err)
		return
	}
	http.Redirect(w, r, d.loggedOut(r), http.StatusSeeOther)
}
