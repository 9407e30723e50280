package dashboard

import (
	"io/fs"
	"net/http"
	"strings"
)

// static serves the bundle. A file's name changes with its content, so browsers may keep it for a year.
func (d *dashboard) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "manifest.json" || strings.HasPrefix(name, ".") || strings.ContainsRune(name, '/') {
		d.fail(w, r, problem{status: http.StatusNotFound})
		return
	}
	if _, err := fs.Stat(d.Bundle.Files, name); err != nil {
		d.fail(w, r, problem{status: http.StatusNotFound})
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeFileFS(w, r, d.Bundle.Files, name)
}
