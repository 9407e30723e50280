package dashboard

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"

	"tidegate/functions/admin/access"
	"tidegate/functions/admin/session"
)

// SessionStore is what the dashboard needs to keep sessions. *session.Store is one.
type SessionStore interface {
	scs.Store
	Enroll(ctx context.Context, user, token string, expiry time.Time) error
	List(ctx context.Context, user string, count int) ([]session.Session, error)
	EndAll(ctx context.Context, user string) error
}

// What a session holds.
const (
	sessionActorID = "actor"
	sessionName    = "name"
	sessionRole    = "role"
	sessionBinding = "binding" // what the session ends with: see sessionActor
	sessionStarted = "started" // second of the Unix epoch
	sessionAgent   = "agent"   // the browser, in words
	sessionFlash   = "flash"
	sessionUndo    = "undo"
)

// newSessions sets up the session cookie. SameSite is Lax, not Strict, so that a link in a chat or a ticket opens the page it names instead of the
// login; no GET changes anything.
func (d *dashboard) newSessions() *scs.SessionManager {
	s := scs.New()
	s.Store = d.Sessions
	s.Lifetime = d.SessionLifetime
	s.Cookie = scs.SessionCookie{Name: d.cookieName(""), Path: d.path("/"), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	return s
}

// cookieName asks browsers to refuse a cookie that was not set here over TLS. __Host- demands the path /, which another stage of the same gateway
// would share; below a base path __Secure- and the path keep them apart.
func (d *dashboard) cookieName(suffix string) string {
	if d.BasePath == "" {
		return "__Host-tidegate" + suffix
	}
	return "__Secure-tidegate" + suffix
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

// sessionActor returns whose the session is. It is bound to what it was opened with: a user's name, role and password, or the provider and what its
// claim means. When the configuration no longer says the same, the session is nobody's.
func (d *dashboard) sessionActor(ctx context.Context) access.Actor {
	id, binding := d.sessions.GetString(ctx, sessionActorID), d.sessions.GetString(ctx, sessionBinding)
	if name, ok := strings.CutPrefix(id, "password:"); ok {
		if user, found := d.users.Find(name); found && user.Fingerprint() == binding {
			return user.Actor()
		}
		return access.Actor{}
	}
	if d.Provider == nil || !strings.HasPrefix(id, "oidc:") || d.Provider.Fingerprint() != binding {
		return access.Actor{}
	}
	role, err := access.ParseRole(d.sessions.GetString(ctx, sessionRole))
	if err != nil {
		return access.Actor{}
	}
	return access.Actor{ID: id, Name: d.sessions.GetString(ctx, sessionName), Kind: access.User, Role: role}
}

// enter opens a session for somebody who proved who they are, and sends them on.
func (d *dashboard) enter(w http.ResponseWriter, r *http.Request, actor access.Actor, binding, next string) {
	ctx := r.Context()
	if err := d.tellLogin(ctx, actor); err != nil {
		d.failStore(w, r, "tell of login", err)
		return
	}
	// A new session id, and nothing of the old session: one that somebody planted before the login is worth nothing after it.
	err := d.sessions.Clear(ctx)
	if err == nil {
		err = d.sessions.RenewToken(ctx)
	}
	if err == nil {
		err = d.Sessions.Enroll(ctx, actor.ID, d.sessions.Token(ctx), d.sessions.Deadline(ctx))
	}
	if err != nil {
		d.failStore(w, r, "open session", err)
		return
	}
	d.sessions.Put(ctx, sessionActorID, actor.ID)
	d.sessions.Put(ctx, sessionName, actor.Name)
	d.sessions.Put(ctx, sessionRole, actor.Role.String())
	d.sessions.Put(ctx, sessionBinding, binding)
	d.sessions.Put(ctx, sessionStarted, time.Now().Unix())
	d.sessions.Put(ctx, sessionAgent, agentWords(r.UserAgent()))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// agentWords names a browser and its system, as far as they say.
func agentWords(agent string) string {
	browser := firstIn(agent, "another program", [][2]string{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	})
	system := firstIn(agent, "", [][2]string{
		{"Windows", " on Windows"}, {"Android", " on Android"}, {"iPhone", " on iPhone"}, {"iPad", " on iPad"},
		{"Mac OS X", " on macOS"}, {"Linux", " on Linux"},
	})
	return browser + system
}

// firstIn returns the words of the first mark that a text holds.
func firstIn(text, otherwise string, marks [][2]string) string {
	for _, m := range marks {
		if strings.Contains(text, m[0]) {
			return m[1]
		}
	}
	return otherwise
}
