package server

import (
	"net/http"

	"tidegate/functions/admin/dashboard/page"
)

// saveTheme stores the theme in a cookie, not in the session, so that the log-in page has
// it too.
func (s *server) saveTheme(w http.ResponseWriter, r *http.Request) {
	if !s.ParseForm(w, r) {
		return
	}
	name := r.PostForm.Get("theme")
	if !r.PostForm.Has("theme") || !page.IsTheme(name) {
		s.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	age := page.ThemeAge
	if name == "" {
		age = -1 // deletes the cookie
	}
	http.SetCookie(w, &http.Cookie{
		Name: page.ThemeCookie, Value: name, Path: s.Path("/"), MaxAge: age, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(w, r, s.BackTo(r.PostForm.Get("next")), http.StatusSeeOther)
}
