// Package middleware brings what Tidegate's authorizer decided to a backend written in
// Go, behind API Gateway and any adapter of Lambda's events to net/http.
//
// It adds the RateLimit and RateLimit-Policy fields to every answer; gives handlers the
// Decision; turns a call that is over a limit into a true 429 with Retry-After and a
// problem (RFC 9457), for HTTP APIs whose authorizer is set to let such calls pass and
// say so (HTTP_API_DENY=context); and settles what a call really cost (Settle). The
// backend must run it then, and must be reachable through API Gateway alone: whoever
// could call it directly could claim any decision. A request without a decision is
// answered 500 and never reaches the handler.
//
// The folders node and python do the same for backends in those languages. All three pass
// the cases of testdata/conformance.json.
package middleware

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
)

// Middleware wraps handlers. Source is required.
type Middleware struct {
	Source  Source
	Settler *Settler     // makes Settle work; may be nil
	Log     *slog.Logger // gets a line for each request without a decision; nil is slog.Default

	// AllowOrigins lists the origins whose scripts may read a 429 and its fields in a
	// browser. Nil allows any: a key travels in a header that the script itself sets. An
	// empty list allows none. CORS headers that are set already stay.
	AllowOrigins []string
}

// Wrap returns a handler that passes on to next what the authorizer allows.
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

// call is what a request's context carries.
type call struct {
	decision Decision
	settler  *Settler
}

// FromContext returns the decision on the request that ctx belongs to; false outside of
// Wrap.
func FromContext(ctx context.Context) (Decision, bool) {
	c, ok := ctx.Value(contextKey{}).(call)
	return c.decision, ok
}

// addTo adds the RateLimit fields, as far as there are any.
func (d Decision) addTo(h http.Header) {
	for name, value := range map[string]string{"RateLimit": d.RateLimit,
		"RateLimit-Policy": d.RateLimitPolicy} {
		if value != "" {
			h.Set(name, value)
		}
	}
}

// expose lets scripts of an origin read an answer.
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
	}
	h.Set("Access-Control-Expose-Headers", "Retry-After, RateLimit, RateLimit-Policy")
}

// refuse answers a call that is over a limit. One that can never pass has no Retry-After.
func (d Decision) refuse(w http.ResponseWriter) {
	if d.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(d.RetryAfter, 10))
	}
	p := problem{Type: d.ProblemType, Status: http.StatusTooManyRequests, Detail: d.Message,
		Violated: d.Violated}
	if p.Type == "" {
		p.Type = aboutBlank
	}
	answer(w, p)
}

const aboutBlank = "about:blank"

// problem is the body of an answer that is none, in the form of RFC 9457.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`
}

func answer(w http.ResponseWriter, p problem) {
	p.Title = http.StatusText(p.Status)
	body, _ := json.Marshal(p) // texts and numbers always encode
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // fails only when the client is gone
}
