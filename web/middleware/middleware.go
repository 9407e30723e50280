// Package middleware applies Tidegate's decisions in backends in Go. Middleware reads the
// decision of Tidegate's authorizer, behind API Gateway and any adapter of Lambda's events
// to net/http. Asking asks for one, where another authorizer runs, or none.
//
// Middleware adds the RateLimit and RateLimit-Policy fields to every response, gives handlers the
// Decision, and settles a call's actual cost (Settle). For HTTP APIs with
// HTTP_API_DENY=context, whose authorizer admits calls over a limit, it responds with
// 429, Retry-After and a problem (RFC 9457). Such a backend must use it, and must be
// reachable only through API Gateway, since direct clients could claim any decision. A
// request without a decision gets 500 and never reaches the handler.
//
// The folders node and python have the same middleware for those languages. All three
// pass the cases of testdata/conformance.json.
package middleware

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
)

// Middleware wraps handlers. Source is required.
type Middleware struct {
	Source  Source
	Settler *Settler     // settles for Settle; may be nil
	Log     *slog.Logger // gets a line for each request without a decision; nil is slog.Default

	// AllowOrigins lists the origins whose scripts may read a 429 and its fields in a
	// browser, also if they send cookies. Nil allows any origin without cookies, since
	// scripts set the key's header themselves. An empty list allows none. CORS headers
	// that are already set stay.
	AllowOrigins []string
}

// Wrap returns a handler that passes admitted calls to next.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := parseDecision(m.Source(r))
		if err != nil {
			m.log().ErrorContext(r.Context(),
				"authorizer decision missing, request refused", "cause", err)
			respond(w, r, refusalOf(problem{Status: http.StatusInternalServerError,
				Detail: "The authorizer's decision is missing."}))
			return
		}
		d.addTo(w.Header())
		if d.Denied {
			m.expose(w.Header(), r.Header.Get("Origin"))
			respond(w, r, d.refusal())
			return
		}
		ctx := context.WithValue(r.Context(), contextKey{}, call{d, m.Settler, &atomic.Bool{}})
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
	settled  *atomic.Bool // whether the handler has settled it, or its end
}

// FromContext returns the decision on the request of ctx. It reports false outside of a
// handler that Wrap calls.
func FromContext(ctx context.Context) (Decision, bool) {
	c, ok := ctx.Value(contextKey{}).(call)
	return c.decision, ok
}

// addTo adds the RateLimit fields that are not empty.
func (d Decision) addTo(h http.Header) {
	for name, value := range map[string]string{"RateLimit": d.RateLimit,
		"RateLimit-Policy": d.RateLimitPolicy} {
		if value != "" {
			h.Set(name, value)
		}
	}
}

// expose sets the CORS headers that let scripts of an origin read the response.
func (m *Middleware) expose(h http.Header, origin string) {
	const allow = "Access-Control-Allow-Origin"
	switch {
	case h.Get(allow) != "" || m.AllowOrigins != nil && len(m.AllowOrigins) == 0:
		return
	case m.AllowOrigins == nil:
		h.Set(allow, "*")
	default:
		h.Add("Vary", "Origin")
		if !slices.Contains(m.AllowOrigins, origin) {
			return
		}
		h.Set(allow, origin)
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	h.Set("Access-Control-Expose-Headers", "Retry-After, RateLimit, RateLimit-Policy")
}

// refusal returns the response to a call over a limit. That to a call that can never pass has
// no Retry-After.
func (d Decision) refusal() Answer {
	refusal := refusalOf(problem{Type: d.ProblemType, Status: http.StatusTooManyRequests,
		Detail: d.Message, Violated: d.Violated, Wait: d.Wait, Reference: d.Reference})
	if d.RetryAfter > 0 {
		refusal.Headers["Retry-After"] = strconv.FormatInt(d.RetryAfter, 10)
	}
	return refusal
}

// problem is the body of an error response, in the form of RFC 9457. It has the members
// of a REST API's 429, but no instance.
type problem struct {
	Type      string   `json:"type"`
	Title     string   `json:"title"`
	Status    int      `json:"status"`
	Detail    string   `json:"detail"`
	Message   string   `json:"message"` // Detail, for clients made for API Gateway
	Violated  []string `json:"violated-policies,omitempty"`
	Wait      string   `json:"retry-after,omitempty"`
	Reference string   `json:"reference,omitempty"`
}

// respond writes a refusal. An answer to HEAD has no body: servers drop it, but not every
// adapter of Lambda's events does.
func respond(w http.ResponseWriter, r *http.Request, refusal Answer) {
	for name, value := range refusal.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(refusal.Status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, refusal.Body) // fails only after the client disconnected
	}
}
