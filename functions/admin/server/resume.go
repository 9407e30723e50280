package server

import (
	"net/http"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/web/templates"
)

// sessionKept is the session's value with a form that was sent before the log-in, sealed,
// for the next page.
const sessionKept = "kept"

// askLoginForForm shows the log-in, and keeps the form that came without a session.
func (s *server) askLoginForForm(w http.ResponseWriter, r *http.Request, kept string) {
	http.SetCookie(w, s.probeCookie())
	s.Render(w, r, http.StatusUnauthorized, templates.Login(s.withKept(s.loginPage(r, s.Path("/")), kept)))
}

func (s *server) withKept(p templates.LoginPage, kept string) templates.LoginPage {
	p.Kept, p.Resume = templates.Hidden{Name: page.KeptField, Value: kept}, s.Path("/resume")
	return p
}

// canResume reports whether the route of a request shows its form again.
func (s *server) canResume(r *http.Request) bool {
	found, _, _ := s.pages.find(r)
	return r.Method == http.MethodPost && found.resumes
}

// setOwner sets the cookie that marks the browser's forms as the actor's.
func (s *server) setOwner(w http.ResponseWriter, actor auth.Actor) {
	http.SetCookie(w, &http.Cookie{
		Name: s.OwnerCookie, Value: s.Owner(actor.ID), Path: s.Path("/"), Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode, MaxAge: int(2 * s.SessionLifetime.Seconds()),
	})
}

// keptAtLogin stores a kept form in the session, and returns the path that shows it. It
// drops a form of another user.
func (s *server) keptAtLogin(r *http.Request, actor auth.Actor, next string) string {
	if kept := r.PostForm.Get(page.KeptField); s.IsKeptFor(actor.ID, kept) {
		s.Session.Put(r.Context(), sessionKept, kept)
		return s.Path("/resume")
	}
	return next
}

// showKept shows the form that the log-in kept, once.
func (s *server) showKept(w http.ResponseWriter, r *http.Request) {
	s.ShowKept(w, r, s.Session.PopString(r.Context(), sessionKept))
}

// resume shows the kept form of the request.
func (s *server) resume(w http.ResponseWriter, r *http.Request) {
	if s.ParseForm(w, r) {
		s.ShowKept(w, r, r.PostForm.Get(page.KeptField))
	}
}
