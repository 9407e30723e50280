package server

import (
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"tidegate/functions/admin/dashboard/page"
)

// static serves the bundle. A file's name changes with its content, so browsers may keep
// it for a year.
func (s *server) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "manifest.json" || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".gz") ||
		strings.ContainsRune(name, '/') {
		s.Fail(w, r, page.Problem{Status: http.StatusNotFound})
		return
	}
	if _, err := fs.Stat(s.Bundle.Files, name); err != nil {
		s.Fail(w, r, page.Problem{Status: http.StatusNotFound})
		return
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
}

// acceptsGzip reports whether the compressed file may be sent. It treats any refusal of
// gzip as complete.
func acceptsGzip(r *http.Request) bool {
	accepted := r.Header.Get("Accept-Encoding")
	return strings.Contains(accepted, "gzip") && !strings.Contains(accepted, "gzip;q=0") &&
		r.Header.Get("Range") == ""
}
