package dashboard

import (
	"net/http"
	"net/url"

	"github.com/alexedwards/scs/v2"
)

// What a session holds.
const (
	sessionUser  = "user"
	sessionRole  = "role"
	sessionFlash = "flash"
)

// newSessions sets up the session cookie. SameSite is Lax, not Strict, so that a link in a chat or a ticket opens the page it names instead of the login;
// no GET changes anything.
func (d *dashboard) newSessions() *scs.SessionManager {
	s := scs.New()
	s.Store = d.Sessions
	s.Lifetime = d.SessionLifetime
	s.Cookie = scs.SessionCookie{Name: d.cookieName(), Path: d.path("/"), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	s.ErrorFunc = func(w http.ResponseWriter, r *http.Request, err error) { d.failStore(w, r, "session", err) }
	return s
}

// cookieName asks browsers to refuse a session cookie that was not set here over TLS. __Host- demands the path /, which another stage of the same
// gateway would share; below a base path __Secure- and the path keep them apart.
func (d *dashboard) cookieName() string {
	if d.BasePath == "" {
		return "__Host-tidegate"
	}
	return "__Secure-tidegate"
}

// dispatch looks up a request's route and what it needs. Without a route it needs a session: strangers learn nothing of what exists.
func (d *dashboard) dispatch(w http.ResponseWriter, r *http.Request) {
	handler, pattern := d.mux.Handler(r)
	need, known := d.roles[pattern]
	if !known {
		need = viewer
	}
	if need == open {
		d.mux.ServeHTTP(w, r)
		return
	}
	d.sessions.LoadAndSave(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		have := d.roleOf(r)
		switch {
		case have >= need && known:
			d.mux.ServeHTTP(w, r)
		case have >= need:
			d.unrouted(w, r, handler)
		case have == guest:
			d.askLogin(w, r)
		default:
			d.fail(w, r, problem{
				status:  http.StatusForbidden,
				heading: "You may look, but not change",
				advice:  "This needs the editor role. Ask whoever runs this dashboard.",
			})
		}
	})).ServeHTTP(w, r)
}

// roleOf returns what the request's session allows.
func (d *dashboard) roleOf(r *http.Request) role {
	switch d.sessions.GetString(r.Context(), sessionRole) {
	case "viewer":
		return viewer
	case "editor":
		return editor
	}
	return guest
}

// askLogin sends the browser to the login, and afterwards back to where it wanted to go. A live refresh gets the order to take the whole page there.
func (d *dashboard) askLogin(w http.ResponseWriter, r *http.Request) {
	back := d.path("/")
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		back = r.URL.RequestURI()
	}
	login := d.path("/login") + "?next=" + url.QueryEscape(back)
	if isRefresh(r) {
		w.Header().Set("HX-Redirect", login)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, login, http.StatusSeeOther)
}

// unrouted answers what the mux would, a redirect to the clean path, 404 or 405, as one of our pages.
func (d *dashboard) unrouted(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	probe := &answer{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	if allow := probe.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
	}
	d.fail(w, r, problem{status: probe.status})
}

// answer records how a handler would answer and drops the body.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }
func (a *answer) WriteHeader(status int)      { a.status = status }
