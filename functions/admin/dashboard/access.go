package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/alexedwards/scs/v2"
)

// What a session holds.
const (
	sessionUser    = "user"
	sessionRole    = "role"
	sessionAccount = "account" // see account
	sessionFlash   = "flash"
)

// newSessions sets up the session cookie. SameSite is Lax, not Strict, so that a link in a chat or a ticket opens the page it names instead of the
// login; no GET changes anything.
func (d *dashboard) newSessions() *scs.SessionManager {
	s := scs.New()
	s.Store = d.Sessions
	s.Lifetime = d.SessionLifetime
	s.Cookie = scs.SessionCookie{Name: d.cookieName(), Path: d.path("/"), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
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
	d.withSession(w, r, func(w http.ResponseWriter, r *http.Request) {
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
	})
}

// withSession answers a request that may read and change its session. The answer is held back until the session is saved, so that it never claims
// what did not happen.
func (d *dashboard) withSession(w http.ResponseWriter, r *http.Request, handle http.HandlerFunc) {
	token := ""
	if c, err := r.Cookie(d.sessions.Cookie.Name); err == nil {
		token = c.Value
	}
	ctx, err := d.sessions.Load(r.Context(), token)
	if err != nil {
		d.failStore(w, r, "load session", err)
		return
	}
	held := &answer{header: w.Header()}
	handle(held, r.WithContext(ctx))
	if err := d.saveSession(ctx, w); err != nil {
		d.failStore(w, r, "save session", err)
		return
	}
	held.send(w)
}

func (d *dashboard) saveSession(ctx context.Context, w http.ResponseWriter) error {
	switch d.sessions.Status(ctx) {
	case scs.Modified:
		token, expiry, err := d.sessions.Commit(ctx)
		if err != nil {
			return err
		}
		d.sessions.WriteSessionCookie(ctx, w, token, expiry)
	case scs.Destroyed:
		d.sessions.WriteSessionCookie(ctx, w, "", time.Time{})
	case scs.Unmodified:
	}
	return nil
}

// roleOf returns what the request's session allows.
func (d *dashboard) roleOf(r *http.Request) role {
	if d.sessions.GetString(r.Context(), sessionAccount) != d.account() {
		return guest
	}
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

// unrouted answers what the mux would, 404 or 405, as one of our pages.
func (d *dashboard) unrouted(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	probe := &answer{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	if probe.status != http.StatusMethodNotAllowed {
		d.fail(w, r, problem{status: http.StatusNotFound})
		return
	}
	w.Header().Set("Allow", probe.header.Get("Allow"))
	d.fail(w, r, problem{status: http.StatusMethodNotAllowed})
}
