package middleware

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// addTo adds the RateLimit fields that are not empty.
func (d Decision) addTo(h http.Header) {
	for name, value := range map[string]string{"RateLimit": d.RateLimit,
		"RateLimit-Policy": d.RateLimitPolicy} {
		if value != "" {
			h.Set(name, value)
		}
	}
}

// expose lets scripts of an origin read the response.
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

// refuse answers a call over a limit. The answer to a call that can never pass has no
// Retry-After.
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

// problem is the body of an error response, in the form of RFC 9457.
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
	_, _ = w.Write(append(body, '\n')) // fails only after the client disconnected
}
