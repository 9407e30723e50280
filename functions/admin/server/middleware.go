package server

import (
	"context"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"tidegate/functions/admin/dashboard/page"
)

// maxBody bounds a request's body unless its route has another bound. The longest form
// has eight limits.
const maxBody = 64 << 10

// storeTimeout is the time of a request's commands to Valkey, including retries.
const storeTimeout = 3 * time.Second

// middleware returns the handler of every request, outermost first: headers, log,
// compression, recovery, timeout, refusals, route.
func (s *server) middleware() http.Handler {
	var h http.Handler = http.HandlerFunc(s.dispatch)
	h = s.refuseCrossSite(h)
	h = s.withBasePath(h)
	h = withDeadline(h) // the OpenID provider has a separate timeout
	h = s.withRecovery(h)
	h = gzhttp.GzipHandler(h)
	h = s.withLog(h)
	return withHeaders(h)
}

func withDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// withBasePath adds the base path to requests from gateways that remove it.
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

func (s *server) withRecovery(next http.Handler) http.Handler {
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
