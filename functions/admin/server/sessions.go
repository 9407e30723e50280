package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/dashboard"
	"tidegate/functions/admin/dashboard/page"
)

// SessionStore is what the server needs to keep sessions. *session.Store is one.
type SessionStore interface {
	scs.Store
	dashboard.SessionLister
	Enroll(ctx context.Context, user, token string, expiry time.Time) error
	EndAll(ctx context.Context, user string) error
}

// What a session holds.
const (
	sessionActorID = "actor"
	sessionName    = "name"
	sessionRole    = "role"
	sessionBinding = "binding" // what the session ends with: see sessionActor
)

// newSessions sets up the session cookie. SameSite is Lax, not Strict, so that a link in
// a chat or a ticket opens the page it names instead of the login; no GET changes
// anything.
func (s *server) newSessions() *scs.SessionManager {
	m := scs.New()
	m.Store = s.Sessions
	m.Lifetime = s.SessionLifetime
	m.Cookie = scs.SessionCookie{Name: s.cookieName(""), Path: s.BasePath + "/", Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode}
	return m
}

// cookieName asks browsers to refuse a cookie that was not set here over TLS. __Host-
// demands the path /, which another stage of the same gateway would share; below a base
// path __Secure- and the path keep them apart.
func (s *server) cookieName(suffix string) string {
	if s.BasePath == "" {
		return "__Host-tidegate" + suffix
	}
	return "__Secure-tidegate" + suffix
}

// withSession answers a request that may read and change its session. The answer is held
// back until the session is saved, so that it never claims what did not happen.
func (s *server) withSession(w http.ResponseWriter, r *http.Request, handle http.HandlerFunc) {
	token := ""
	if c, err := r.Cookie(s.Session.Cookie.Name); err == nil {
		token = c.Value
	}
	ctx := r.Context()
	if r.Method == http.MethodGet && page.IsRefresh(r) {
		ctx = session.Unattended(ctx)
	}
	ctx, err := s.Session.Load(ctx, token)
	if err != nil {
		s.FailStore(w, r, "load session", err)
		return
	}
	held := &answer{header: w.Header()}
	handle(held, r.WithContext(ctx))
	if err := s.saveSession(ctx, w); err != nil {
		s.FailStore(w, r, "save session", err)
		return
	}
	held.send(w)
}

func (s *server) saveSession(ctx context.Context, w http.ResponseWriter) error {
	switch s.Session.Status(ctx) {
	case scs.Modified:
		token, expiry, err := s.Session.Commit(ctx)
		if err != nil {
			return err
		}
		s.Session.WriteSessionCookie(ctx, w, token, expiry)
	case scs.Destroyed:
		s.Session.WriteSessionCookie(ctx, w, "", time.Time{})
	case scs.Unmodified:
	}
	return nil
}

// sessionActor returns whose the session is. It is bound to what it was opened with: a
// user's name, role and password, or the provider and what its claim means. When the
// configuration no longer says the same, the session is nobody's.
func (s *server) sessionActor(ctx context.Context) auth.Actor {
	id, binding := s.Session.GetString(ctx, sessionActorID), s.Session.GetString(ctx, sessionBinding)
	if name, ok := strings.CutPrefix(id, "password:"); ok {
		if user, found := s.users.Find(name); found && user.Fingerprint() == binding {
			return user.Actor()
		}
		return auth.Actor{}
	}
	if s.Provider == nil || !strings.HasPrefix(id, "oidc:") || s.Provider.Fingerprint() != binding {
		return auth.Actor{}
	}
	role, err := auth.ParseRole(s.Session.GetString(ctx, sessionRole))
	if err != nil {
		return auth.Actor{}
	}
	return auth.Actor{ID: id, Name: s.Session.GetString(ctx, sessionName), Kind: auth.User, Role: role}
}

// enter opens a session for somebody who proved who they are, and sends them on.
func (s *server) enter(w http.ResponseWriter, r *http.Request, actor auth.Actor, binding, next string) {
	ctx := r.Context()
	if err := s.recordLogin(ctx, actor); err != nil {
		s.FailStore(w, r, "record login", err)
		return
	}
	// A new session id, and nothing of the old session: one that somebody planted before
	// the login is worth nothing after it.
	err := s.Session.Clear(ctx)
	if err == nil {
		err = s.Session.RenewToken(ctx)
	}
	if err == nil {
		err = s.Sessions.Enroll(ctx, actor.ID, s.Session.Token(ctx), s.Session.Deadline(ctx))
	}
	if err != nil {
		s.FailStore(w, r, "open session", err)
		return
	}
	s.Session.Put(ctx, sessionActorID, actor.ID)
	s.Session.Put(ctx, sessionName, actor.Name)
	s.Session.Put(ctx, sessionRole, actor.Role.String())
	s.Session.Put(ctx, sessionBinding, binding)
	s.Session.Put(ctx, page.SessionStarted, time.Now().Unix())
	s.Session.Put(ctx, page.SessionAgent, agentWords(r.UserAgent()))
	s.setOwner(w, actor)
	http.Redirect(w, r, s.keptAtLogin(r, actor, next), http.StatusSeeOther)
}

// agentWords names a browser and its system, as far as they say.
func agentWords(agent string) string {
	browser := firstIn(agent, "another program", [][2]string{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"},
		{"Safari/", "Safari"}, {"curl/", "curl"},
	})
	system := firstIn(agent, "", [][2]string{
		{"Windows", " on Windows"}, {"Android", " on Android"}, {"iPhone", " on iPhone"},
		{"iPad", " on iPad"},
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

// endSessions ends every session of the user, this one too.
func (s *server) endSessions(w http.ResponseWriter, r *http.Request) {
	if err := s.Sessions.EndAll(r.Context(), auth.From(r.Context()).ID); err != nil {
		s.FailStore(w, r, "end sessions", err)
		return
	}
	s.logout(w, r)
}
