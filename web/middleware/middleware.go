// Package middleware gives backends in Go the decisions of Tidegate's authorizer, behind
// API Gateway and any adapter of Lambda's events to net/http.
//
// It adds the RateLimit and RateLimit-Policy fields to every response, gives handlers the
// Decision, and settles a call's actual cost (Settle). For HTTP APIs with
// HTTP_API_DENY=context, whose authorizer lets calls over a limit pass, it answers 429
// with Retry-After and a problem (RFC 9457). Such a backend must run it, and must be
// reachable only through API Gateway, since direct clients could claim any decision. A
// request without a decision is answered 500 and never reaches the handler.
//
// The folders node and python are the same for backends in those languages. All three
// pass the cases of testdata/conformance.json.
package middleware

import (
	"context"
	"log/slog"
	"net/http"
)

// Middleware wraps handlers. Source is required.
type Middleware struct {
	Source  Source
	Settler *Settler     // makes Settle work; may be nil
	Log     *slog.Logger // gets a line for each request without a decision; nil is slog.Default

	// AllowOrigins lists the origins whose scripts may read a 429 and its fields in a
	// browser. Nil allows any, since scripts set the key's header themselves. An empty
	// list allows none. CORS headers that are already set stay.
	AllowOrigins []string
}

// Wrap returns a handler that passes admitted calls to next.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := parseDecision(m.Source(r))
		if err != nil {
			m.log().ErrorContext(r.Context(),
				"no decision of the authorizer: the request is refused", "cause", err)
			answer(w, problem{Type: aboutBlank, Status: http.StatusInternalServerError,
				Detail: "The authorizer's decision is missing."})
			return
		}
		d.addTo(w.Header())
		if d.Denied {
			m.expose(w.Header(), r.Header.Get("Origin"))
			d.refuse(w)
			return
		}
		ctx := context.WithValue(r.Context(), contextKey{}, call{d, m.Settler})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func (m *Middleware) log() *slog.Logger {
	if m.Log == nil {
		return slog.Default()
	}
	return m.Log
}

type contextKey struct{}

// call is the value in a request's context.
type call struct {
	decision Decision
	settler  *Settler
}

// FromContext returns the decision on the request of ctx; false outside of Wrap.
func FromContext(ctx context.Context) (Decision, bool) {
	c, ok := ctx.Value(contextKey{}).(call)
	return c.decision, ok
}
