package server

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/password"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

// probeField marks a form that came with a cookie. The browser must send the cookie back.
const probeField = "probe"

func (s *server) showLogin(w http.ResponseWriter, r *http.Request) {
	next := s.LocalPath(r.URL.Query().Get("next"))
	if auth.From(r.Context()).Known() {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	http.SetCookie(w, s.probeCookie())
	page := s.loginPage(r, next)
	if r.URL.Query().Get("ended") == "oidc" && s.Provider != nil {
		page.Ended = s.providerLogout(r)
	}
	s.Render(w, r, http.StatusOK, templates.Login(page))
}

// probeCookie returns a cookie with the attributes of the session cookie, so that a
// browser drops both or neither.
func (s *server) probeCookie() *http.Cookie {
	return &http.Cookie{
		Name: s.cookieName("-probe"), Value: "1", Path: s.Path("/"), Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	}
}

// cookiesRefused reports whether the browser got the cookie with the form and did not
// send it.
func (s *server) cookiesRefused(r *http.Request) bool {
	_, err := r.Cookie(s.probeCookie().Name)
	return r.PostForm.Has(probeField) && err != nil
}

func (s *server) loginPage(r *http.Request, next string) templates.LoginPage {
	p := templates.LoginPage{
		Page: s.Bare(r, "Log in"), Submit: s.Path("/login"), Next: next, Password: !s.users.Empty(),
	}
	if s.Provider != nil {
		p.Provider = templates.Choice{
			Text:    "Log in with " + s.Provider.Host(),
			Address: page.Address(s.Path("/login/oidc"), map[string][]string{"next": {next}}),
		}
	}
	return p
}

// login counts the attempt before it checks the password, and refunds it when the
// password is right. Nobody can log in while Valkey is unavailable.
func (s *server) login(w http.ResponseWriter, r *http.Request) {
	if !s.ParseForm(w, r) {
		return
	}
	if s.cookiesRefused(r) {
		http.SetCookie(w, s.probeCookie())
		s.refuseLogin(w, r, http.StatusBadRequest,
			"This browser did not keep the session cookie. It is sent over https only: "+
				"at http://localhost use Chrome or Firefox; elsewhere use https. Allow cookies.")
		return
	}
	name := r.PostForm.Get("user")
	attempt, err := s.Logins.Take(r.Context(), r.RemoteAddr, name)
	if err != nil {
		s.FailStore(w, r, "count login", err)
		return
	}
	if !attempt.Allowed {
		s.refuseThrottled(w, r, attempt.RetryAfter)
		return
	}
	user, err := s.users.Authenticate(r.Context(), name, r.PostForm.Get("password"))
	if err == nil {
		err = s.Logins.Forgive(r.Context(), attempt)
	}
	switch {
	case errors.Is(err, password.ErrWrong):
		s.recordRefusedLogin(r, name)
		s.refuseLogin(w, r, http.StatusUnauthorized, "User or password is wrong.")
	case err != nil:
		s.FailStore(w, r, "login", err)
	default:
		s.startSession(w, r, user.Actor(), user.Fingerprint(), s.LocalPath(r.PostForm.Get("next")))
	}
}

// refuseThrottled says after how many whole seconds the same attempt is allowed.
func (s *server) refuseThrottled(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	s.Log.Warn("login throttled")
	seconds := int64((wait + time.Second - 1) / time.Second)
	w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	words := limiter.FormatWindow(time.Duration(seconds) * time.Second)
	s.refuseLogin(w, r, http.StatusTooManyRequests,
		"Too many attempts from your address. Try again in "+words+".")
}

// refuseLogin shows the form again with its values except the password.
func (s *server) refuseLogin(w http.ResponseWriter, r *http.Request, status int, why string) {
	view := s.loginPage(r, s.LocalPath(r.PostForm.Get("next")))
	view = s.withKept(view, r.PostForm.Get(page.KeptField))
	view.User, view.Error = page.Clip(r.PostForm.Get("user"), 200), why
	s.Render(w, r, status, templates.Login(view))
}

func (s *server) logout(w http.ResponseWriter, r *http.Request) {
	if err := s.Session.Destroy(r.Context()); err != nil {
		s.FailStore(w, r, "logout", err)
		return
	}
	http.Redirect(w, r, s.loggedOut(r), http.StatusSeeOther)
}

// askLogin redirects the browser to the log-in, and afterwards back to its page. A live
// refresh is told to load the whole page there; a machine gets a 401.
func (s *server) askLogin(w http.ResponseWriter, r *http.Request) {
	if s.IsAPI(r) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tidegate"`)
		s.Fail(w, r, page.Problem{Status: http.StatusUnauthorized})
		return
	}
	if kept := s.Keep(r); kept != "" {
		s.askLoginForForm(w, r, kept)
		return
	}
	back := s.Path("/")
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		back = r.URL.RequestURI()
	}
	login := s.Path("/login") + "?next=" + url.QueryEscape(back)
	if page.IsRefresh(r) {
		w.Header().Set("HX-Redirect", login)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, login, http.StatusSeeOther)
}
