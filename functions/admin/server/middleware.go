package server

import (
	"crypto/rand"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/apikey"
)

// maxBody bounds a request's body unless its route has another bound. The longest form
// has eight limits.
const maxBody = 64 << 10

// middleware returns the handler of every request, outermost first: headers, log,
// compression, recovery, refusals, route.
func (s *server) middleware() http.Handler {
	var h http.Handler = http.HandlerFunc(s.dispatch)
	h = s.refuseCrossSite(h)
	h = s.withBasePath(h)
	h = s.withRecovery(h)
	h = withCompression(h)
	h = s.withLog(h)
	return withHeaders(h)
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

// withHeaders sets the headers of every response.
func withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nonce := rand.Text()
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy(nonce))
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Strict-Transport-Security", "max-age=31536000; includeSubDomains")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		// Not no-referrer, under which browsers send "Origin: null" with our own forms.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, page.WithNonce(r, nonce))
	})
}

// contentPolicy returns a Content-Security-Policy for our own files without inline code.
// Scripts may write HTML only through htmx's trusted-types policy, which hx-csp makes and
// grants to elements with the nonce.
func contentPolicy(nonce string) string {
	return strings.Join([]string{
		"default-src 'none'",
		"script-src 'self' 'nonce-" + nonce + "'",
		"style-src 'self'",
		"img-src 'self'",
		"font-src 'self'",
		"connect-src 'self'",
		"form-action 'self'",
		"frame-ancestors 'none'",
		"base-uri 'none'",
		"require-trusted-types-for 'script'",
		"trusted-types htmx",
	}, "; ")
}

// withLog writes a line for each request. The line has no query, which can contain names,
// and no address.
func (s *server) withLog(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		start, path := time.Now(), r.URL.Path
		next.ServeHTTP(rec, r)
		s.Log.Info("request", "method", r.Method, "path", page.Clip(withoutSecrets(path), 200),
			"status", rec.status, "ms", time.Since(start).Milliseconds())
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

// longestID is the maximum length of a caller's id in bytes.
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

// refuseCrossSite answers 403 to a change that another site's page requests.
// http.CrossOriginProtection accepts requests without Origin and Sec-Fetch-Site, since no
// browser sends them. Only browsers use the dashboard, so those are refused too. Machines
// send a token; see hasBearer.
func (s *server) refuseCrossSite(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.hasBearer(r) && (protection.Check(r) != nil || unsafeWithoutOrigin(r)) {
			s.Fail(w, r, page.Problem{
				Status:  http.StatusForbidden,
				Heading: "Request from another site refused",
				Advice:  "Nothing changed. Open the dashboard and try again.",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func unsafeWithoutOrigin(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == ""
}
