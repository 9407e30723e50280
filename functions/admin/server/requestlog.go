package server

import (
	"net/http"
	"strings"
	"time"

	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/apikey"
)

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// withLog writes a line for each request. The line has no query, which can contain names,
// and no address.
func (s *server) withLog(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec, start, path := &statusRecorder{ResponseWriter: w, status: http.StatusOK}, time.Now(), r.URL.Path
		next.ServeHTTP(rec, r)
		s.Log.Info(
			"request", "method", r.Method, "path", page.Clip(withoutSecrets(path), 200), "status",
			rec.status, "ms",
			time.Since(start).Milliseconds(),
		)
	})
}

// longestID is the maximum length of a caller's id.
const longestID = 22

// withoutSecrets returns a path without keys and tokens, which somebody may have put in
// the place of ids.
func withoutSecrets(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if _, err := apikey.Parse(part); err == nil || token.WellFormed(part) ||
			i > 0 && parts[i-1] == "keys" && len(part) > longestID {
			parts[i] = "…"
		}
	}
	return strings.Join(parts, "/")
}
