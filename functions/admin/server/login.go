package server

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/password"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/limits"
	"tidegate/web/templates"
)

// probeField marks a form that came with a cookie. The browser must send the cookie back.
const probeField = "probe"

func (s *server) showLogin(w http.ResponseWriter, r *http.Request) error {
	next := s.LocalPath(r.URL.Query().Get("next"))
	if auth.From(r.Context()).Known() {
		return page.Redirect(w, r, next)
	}
	http.SetCookie(w, s.probeCookie())
	view := s.loginPage(r, next)
	if r.URL.Query().Get("ended") == "oidc" && s.Provider != nil {
		view.Ended = &templates.Ended{ // offers to log out at the provider too
			Host:    s.Provider.Host(),
			Address: s.Provider.LogoutURL(r.Context(), s.PublicURL+"/login"),
		}
	}
	return s.Render(w, r, http.StatusOK, templates.Login(view))
}

// probeCookie returns a cookie with the attributes of the session cookie, so that a
// browser drops both or neither.
func (s *server) probeCookie() *http.Cookie { return s.cookie(s.cookieName("-probe"), "1", 0) }

// cookiesRefused reports whether the browser got the cookie with the form and did not
// send it.
func (s *server) cookiesRefused(r *http.Request) bool {
	_, err := r.Cookie(s.probeCookie().Name)
	return r.PostForm.Has(probeField) && err != nil
}

func (s *server) loginPage(r *http.Request, next string) templates.LoginPage {
	p := templates.LoginPage{
		Page: s.Bare(r, "Log in"), Submit: s.Path("/login"), Next: next, Password: !s.users.Empty(),
		Resumes: next == s.Path(page.ResumePath),
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
func (s *server) login(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	if s.cookiesRefused(r) {
		http.SetCookie(w, s.probeCookie())
		return s.refuseLogin(w, r, http.StatusBadRequest,
			"This browser did not keep the session cookie. It is sent over https only: "+
				"at http://localhost use Chrome or Firefox; elsewhere use https. Allow cookies.")
	}
	name := r.PostForm.Get("user")
	attempt, err := s.Logins.Take(r.Context(), r.RemoteAddr, name)
	if err != nil {
		return page.Failed("count login", err)
	}
	if !attempt.Allowed {
		return s.refuseThrottled(w, r, attempt.RetryAfter)
	}
	user, err := s.users.Authenticate(r.Context(), name, r.PostForm.Get("password"))
	if err == nil {
		err = s.Logins.Forgive(r.Context(), attempt)
	}
	switch {
	case errors.Is(err, password.ErrWrong):
		s.refusedLogin(name)
		return s.refuseLogin(w, r, http.StatusUnauthorized, "User or password is wrong.")
	case err != nil:
		return page.Failed("login", err)
	default:
		return s.startSession(w, r, user.Actor(), user.Fingerprint(), s.LocalPath(r.PostForm.Get("next")))
	}
}

// refuseThrottled answers with the whole seconds until the same attempt is allowed.
func (s *server) refuseThrottled(w http.ResponseWriter, r *http.Request, wait time.Duration) error {
	s.Log.Warn("login throttled")
	seconds := int64((wait + time.Second - 1) / time.Second)
	w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	words := limits.FormatWindow(time.Duration(seconds) * time.Second)
	return s.refuseLogin(w, r, http.StatusTooManyRequests,
		"Too many attempts from your address. Try again in "+words+".")
}

// refuseLogin shows the form again with its values except the password.
func (s *server) refuseLogin(w http.ResponseWriter, r *http.Request, status int, why string) error {
	view := s.loginPage(r, s.LocalPath(r.PostForm.Get("next")))
	view.User, view.Error = page.Clip(r.PostForm.Get("user"), 200), why
	return s.Render(w, r, status, templates.Login(view))
}

func (s *server) logout(w http.ResponseWriter, r *http.Request) error {
	if err := s.Session.Destroy(r.Context()); err != nil {
		return page.Failed("logout", err)
	}
	login := s.Path("/login")
	if strings.HasPrefix(auth.From(r.Context()).ID, "oidc:") {
		login += "?ended=oidc" // the user is still logged in at the provider
	}
	return page.Redirect(w, r, login)
}

// askLogin redirects the browser to the log-in, and from there back to its page. The
// response to a live refresh makes htmx load the log-in as a whole page. The API gets
// 401.
func (s *server) askLogin(w http.ResponseWriter, r *http.Request) error {
	if s.IsAPI(r) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tidegate"`)
		return page.Problem{Status: http.StatusUnauthorized}
	}
	back := s.Path("/")
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		back = r.URL.RequestURI()
	case s.Resumes(r):
		back = s.Path(page.ResumePath)
	}
	login := s.Path("/login") + "?next=" + url.QueryEscape(back)
	if page.IsRefresh(r) {
		w.Header().Set("HX-Redirect", login)
		w.WriteHeader(http.StatusUnauthorized)
		return nil
	}
	return page.Redirect(w, r, login)
}

// canResume reports whether the route of a request shows its form again.
func (s *server) canResume(r *http.Request) bool {
	found, _, _ := s.pages.find(r)
	return r.Method == http.MethodPost && found.Resumes
}

// resume leads back to the form that the browser sent before its session ended or while
// Valkey was unavailable.
func (s *server) resume(w http.ResponseWriter, r *http.Request) error {
	return s.Render(w, r, http.StatusOK,
		templates.Resume(templates.ResumePage{Page: s.Page(r, "Continue your edit"), Button: page.Resume}))
}

// refusedLogin logs a refused log-in. It names only known users, since users type passwords
// in the wrong field.
func (s *server) refusedLogin(name string) {
	if _, known := s.users.Find(name); !known {
		name = ""
	}
	s.Log.Warn("login refused", "user", name)
}
