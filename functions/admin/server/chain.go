package server

import (
	"context"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/apikey"
)

// maxBody bounds a request's body unless its route says otherwise: the longest form is
// eight limits.
const maxBody = 64 << 10

// storeTimeout bounds what a request waits for the store, which repeats what it can
// until then.
const storeTimeout = 3 * time.Second

// chain is the way of every request, outermost first: headers, log, compression,
// recovery, time limit, then what may refuse it, then its route.
func (s *server) chain() http.Handler {
	var h http.Handler = http.HandlerFunc(s.dispatch)
	h = s.refuseCrossSite(h)
	h = s.withBasePath(h)
	h = withDeadline(h) // the provider of logins has a time of its own
	h = s.recovered(h)
	h = gzhttp.GzipHandler(h)
	h = s.logged(h)
	return secured(h)
}

func withDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// withBasePath puts the base path in front of requests from gateways that cut it off.
func (s *server) withBasePath(next http.Handler) http.Handler {
	if s.BasePath == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == s.BasePath:
			r.URL.Path += "/"
		case !strings.HasPrefix(r.URL.Path, s.BasePath+"/"):
			r.URL.Path = s.BasePath + r.URL.Path
		}
		r.URL.RawPath = ""
		next.ServeHTTP(w, r)
	})
}

func (s *server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if cause := recover(); cause != nil {
				s.Log.Error("panic", "cause", cause, "stack", string(debug.Stack()))
				s.Fail(w, r, page.Problem{Status: http.StatusInternalServerError})
			}
		}()
		next.ServeHTTP(w, r)
	})
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// logged writes a line per request. It leaves out the query, which can hold names, and
// the address of the caller.
func (s *server) logged(next http.Handler) http.Handler {
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

// longestID is the length of the longest id of a caller.
const longestID = 22

// withoutSecrets is a path in which somebody may have put a whole key or token where its
// id belongs.
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
