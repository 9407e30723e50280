package server

import (
	"io"
	"mime"
	"net/http"
	"path"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/web/static"
)

// static serves a file of the pages. Its name changes with its content, so browsers may
// keep it for a year.
func (s *server) static(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("file")
	content, found := static.Load().File(name)
	if !found {
		return page.Problem{Status: http.StatusNotFound}
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	kind := "font/woff2" // which Go does not know
	if name != static.Load().Font {
		kind = mime.TypeByExtension(path.Ext(name))
	}
	w.Header().Set("Content-Type", kind)
	_, _ = io.WriteString(w, content) // fails only after the client disconnected
	return nil
}

// saveTheme stores the theme in a cookie, not in the session, so that the log-in page has
// it too.
func (s *server) saveTheme(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	name := r.PostForm.Get("theme")
	if !r.PostForm.Has("theme") || !page.IsTheme(name) {
		return page.Problem{Status: http.StatusBadRequest}
	}
	life := page.ThemeAge * time.Second
	if name == "" {
		life = -1
	}
	http.SetCookie(w, s.cookie(page.ThemeCookie, name, life))
	return page.Redirect(w, r, s.BackTo(r.PostForm.Get("next")))
}
