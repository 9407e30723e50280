package server

import (
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/page"
)

// static serves the bundle. A file's name changes with its content, so browsers may keep
// it for a year.
func (s *server) static(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("file")
	if name == "manifest.json" || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".gz") ||
		strings.ContainsRune(name, '/') {
		return page.Problem{Status: http.StatusNotFound}
	}
	if _, err := fs.Stat(s.Bundle.Files, name); err != nil {
		return page.Problem{Status: http.StatusNotFound}
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	kind := mime.TypeByExtension(path.Ext(name))
	if _, err := fs.Stat(s.Bundle.Files, name+".gz"); err == nil && kind != "" && acceptsGzip(r) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Add("Vary", "Accept-Encoding")
		name += ".gz"
	}
	http.ServeFileFS(w, r, s.Bundle.Files, name)
	return nil
}

// acceptsGzip reports whether the compressed file may be sent. It treats any refusal of
// gzip as complete.
func acceptsGzip(r *http.Request) bool {
	accepted := r.Header.Get("Accept-Encoding")
	return strings.Contains(accepted, "gzip") && !strings.Contains(accepted, "gzip;q=0") &&
		r.Header.Get("Range") == ""
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
