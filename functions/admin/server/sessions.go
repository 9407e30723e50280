package server

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/dashboard/page"
)

// SessionStore stores sessions. *session.Store implements it.
type SessionStore interface {
	scs.Store
	// List returns up to count sessions of a user, the newest first.
	List(ctx context.Context, user string, count int) ([]session.Session, error)
	Enroll(ctx context.Context, user, token string, expiry time.Time) error
	EndAll(ctx context.Context, user string) error
}

// The values of a session.
const (
	sessionActorID = "actor"
	sessionName    = "name"
	sessionRole    = "role"
	sessionBinding = "binding" // the fingerprint at log-in: see sessionActor
)

// newSessions configures the session cookie. SameSite is Lax, not Strict, so that a link
// in a chat or ticket opens its page instead of the log-in. No GET makes a change.
func (s *server) newSessions() *scs.SessionManager {
	m := scs.New()
	m.Store = s.Sessions
	m.Lifetime = s.SessionLifetime
	m.Cookie = scs.SessionCookie{Name: s.cookieName(""), Path: s.BasePath + "/", Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode}
	return m
}

// cookieName returns a cookie's name, whose prefix makes browsers accept it only over
// TLS. __Host- requires the path /, which another stage of the same gateway would share.
// With a base path, __Secure- and the cookie's path keep stages apart.
func (s *server) cookieName(suffix string) string {
	if s.BasePath == "" {
		return "__Host-tidegate" + suffix
	}
	return "__Secure-tidegate" + suffix
}

// cookie returns a cookie with the attributes of the session cookie. A life of 0 ends it
// with the browser, a negative one deletes it.
func (s *server) cookie(name, value string, life time.Duration) *http.Cookie {
	age := int(life.Seconds())
	if life < 0 {
		age = -1
	}
	return &http.Cookie{
		Name: name, Value: value, Path: s.Path("/"), MaxAge: age, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	}
}

// withSession handles a request that may read and change its session. It sends the
// response after it saves the session: if that fails, the response is an error.
func (s *server) withSession(w http.ResponseWriter, r *http.Request, handle http.HandlerFunc) {
	token := ""
	if c, err := r.Cookie(s.Session.Cookie.Name); err == nil {
		token = c.Value
	}
	ctx := r.Context()
	if r.Method == http.MethodGet && page.IsRefresh(r) {
		ctx = session.Unattended(ctx)
	}
	loading, cancel := context.WithTimeout(ctx, auth.Short)
	defer cancel()
	began := time.Now()
	ctx, err := s.Session.Load(loading, token)
	if err != nil {
		s.Fail(w, r, page.Failed("load session", err))
		return
	}
	if token != "" {
		s.Answered(time.Since(began))
	}
	ctx = context.WithoutCancel(ctx) // the route has a deadline of its own
	held := &bufferedResponse{header: w.Header()}
	handle(held, r.WithContext(ctx))
	if err := s.saveSession(ctx, w); err != nil {
		s.Fail(w, r, page.Failed("save session", err))
		return
	}
	held.send(w)
}

func (s *server) saveSession(ctx context.Context, w http.ResponseWriter) error {
	ctx, cancel := context.WithTimeout(ctx, auth.Short)
	defer cancel()
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

// sessionActor returns the session's actor. A session belongs to a fingerprint: of a
// user's name, role and password, or of the provider and its claim. If the
// configuration's fingerprint differs, the session has no actor.
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

// startSession starts a session for an authenticated actor and redirects.
func (s *server) startSession(w http.ResponseWriter, r *http.Request, actor auth.Actor,
	binding, next string) error {
	ctx := r.Context()
	// A new session id without the old session's data prevents session fixation.
	err := s.Session.Clear(ctx)
	if err == nil {
		err = s.Session.RenewToken(ctx)
	}
	if err == nil {
		err = s.Sessions.Enroll(ctx, actor.ID, s.Session.Token(ctx), s.Session.Deadline(ctx))
	}
	if err != nil {
		return page.Failed("open session", err)
	}
	s.Session.Put(ctx, sessionActorID, actor.ID)
	s.Session.Put(ctx, sessionName, actor.Name)
	s.Session.Put(ctx, sessionRole, actor.Role.String())
	s.Session.Put(ctx, sessionBinding, binding)
	s.Session.Put(ctx, session.Started, time.Now().Unix())
	s.Session.Put(ctx, session.Agent, browserName(r.UserAgent()))
	s.Log.Info("login", "user", actor.String())
	return page.Redirect(w, r, next)
}

const maxSessions = 20 // sessions listed per user

// ownSessions returns the sessions of the user, the newest first. A token has none.
func (s *server) ownSessions(ctx context.Context) ([]session.Own, error) {
	if auth.From(ctx).Kind == auth.Token {
		return []session.Own{}, nil
	}
	stored, err := s.Sessions.List(ctx, auth.From(ctx).ID, maxSessions)
	own := session.ID(s.Session.Token(ctx))
	all := []session.Own{}
	for _, one := range stored {
		expires, values, err := s.Session.Codec.Decode(one.Data)
		if err != nil {
			continue
		}
		agent, _ := values[session.Agent].(string)
		started, _ := values[session.Started].(int64)
		all = append(all, session.Own{Browser: agent, Started: time.Unix(started, 0).UTC(),
			Expires: expires.UTC(), Current: one.ID == own})
	}
	return all, err
}

// endSessions ends every session of the user, including this one.
func (s *server) endSessions(w http.ResponseWriter, r *http.Request) error {
	if err := s.Sessions.EndAll(r.Context(), auth.From(r.Context()).ID); err != nil {
		return page.Failed("end sessions", err)
	}
	return s.logout(w, r)
}

// bufferedResponse is a response that is sent later.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *bufferedResponse) Header() http.Header         { return b.header }
func (b *bufferedResponse) Write(p []byte) (int, error) { return b.body.Write(p) }

func (b *bufferedResponse) WriteHeader(status int) {
	if b.status == 0 {
		b.status = status
	}
}

// send sends the response. Its headers are already set if w shares them.
func (b *bufferedResponse) send(w http.ResponseWriter) {
	if b.status != 0 {
		w.WriteHeader(b.status)
	}
	_, _ = w.Write(b.body.Bytes()) // fails only after the client disconnected
}

// browserName returns the browser and system of a User-Agent.
func browserName(agent string) string {
	browser := firstMatch(agent, "another program", [][2]string{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"},
		{"Safari/", "Safari"}, {"curl/", "curl"},
	})
	system := firstMatch(agent, "", [][2]string{
		{"Windows", " on Windows"}, {"Android", " on Android"}, {"iPhone", " on iPhone"},
		{"iPad", " on iPad"}, {"Mac OS X", " on macOS"}, {"Linux", " on Linux"},
	})
	return browser + system
}

// firstMatch returns the name of the first mark that text contains. A mark is a part of a
// text and its name.
func firstMatch(text, fallback string, marks [][2]string) string {
	for _, m := range marks {
		if strings.Contains(text, m[0]) {
			return m[1]
		}
	}
	return fallback
}
