package middleware

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
)

// Asking asks a Door about every request, where no authorizer of Tidegate has decided:
// behind an authorizer of another kind, in a function URL, in a container. Door and Caller
// are required. It is safe for concurrent use.
//
// It adds the RateLimit fields, answers 401, 403 or 429 in place of the handler, and gives
// handlers the Decision and Settle. At the end of a request it gives back what failed
// requests took (RefundOn), and the place of a limit at once.
type Asking struct {
	Door *Door
	// Caller says who makes a request, from what the framework has verified: its user, a
	// session, an API key. Without Subject and APIKey the request is answered 401. Method,
	// Path and Address are the request's unless they are set: Address is that of
	// RemoteAddr, so let a middleware before this one set it behind a proxy.
	Caller func(*http.Request) Call
	// RefundOn says which statuses give back what the call took; nil gives nothing back.
	RefundOn func(status int) bool
	// Open lets requests pass that cannot be checked now, but never one with an APIKey,
	// which nobody has verified. Otherwise they are answered 429.
	Open bool
	// Challenge is the WWW-Authenticate of a 401; empty is Bearer. An MCP server names its
	// metadata in it: docs/attach.md.
	Challenge    string
	AllowOrigins []string     // as of Middleware
	Log          *slog.Logger // gets what cannot be checked or settled; nil is slog.Default

	ending sync.WaitGroup
}

// ServerErrors is a RefundOn for requests that the backend failed to serve: 5xx.
func ServerErrors(status int) bool { return status >= http.StatusInternalServerError }

// Wrap returns a handler that passes allowed requests to next.
func (a *Asking) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, d := a.ask(r)
		if !answer.Allowed {
			(&Middleware{AllowOrigins: a.AllowOrigins}).expose(w.Header(), r.Header.Get("Origin"))
			respond(w, r, answer)
			return
		}
		for name, value := range answer.Headers {
			w.Header().Set(name, value)
		}
		a.serve(w, r, next, call{d, &Settler{Door: a.Door}, &atomic.Bool{}})
	})
}

// ask returns the answer that admits or refuses a request.
func (a *Asking) ask(r *http.Request) (Answer, Decision) {
	c := a.callOf(r)
	if c.Subject == "" && c.APIKey == "" {
		refusal := refusalOf(problem{Status: http.StatusUnauthorized, Detail: "This request has no caller."})
		refusal.Headers["WWW-Authenticate"] = cmp.Or(a.Challenge, "Bearer")
		return refusal, Decision{}
	}
	answer, err := a.Door.Check(r.Context(), c)
	var mistake *MistakeError
	switch {
	case err == nil:
		d, _ := parseDecision(answer.Context) // a caller that may not call has no decision
		return answer, d
	case errors.As(err, &mistake):
		a.log().ErrorContext(r.Context(), "request refused: the check is asked wrongly", "cause", err)
		return refusalOf(problem{Status: http.StatusInternalServerError,
			Detail: "The limits of this request cannot be checked."}), Decision{}
	case a.Open && c.APIKey == "":
		a.log().WarnContext(r.Context(), "request passes unchecked", "cause", err)
		return Answer{Allowed: true}, Decision{Degraded: true}
	}
	a.log().ErrorContext(r.Context(), "request denied: it cannot be checked", "cause", err)
	refusal := refusalOf(problem{Status: http.StatusTooManyRequests, Wait: "1",
		Type:   "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
		Detail: "The limits cannot be checked right now. Retry after 1 second."})
	refusal.Headers["Retry-After"] = "1"
	return refusal, Decision{}
}

// refusalOf returns a problem as an answer.
func refusalOf(p problem) Answer {
	if p.Type == "" {
		p.Type = "about:blank"
	}
	p.Title, p.Message = http.StatusText(p.Status), p.Detail
	body, _ := json.Marshal(p) // texts and numbers always encode
	return Answer{Status: p.Status, Body: string(body) + "\n", Headers: map[string]string{
		"Content-Type": "application/problem+json", "Cache-Control": "no-store"}}
}

// callOf returns the call with what the request itself says.
func (a *Asking) callOf(r *http.Request) Call {
	c := a.Caller(r)
	if c.Method == "" {
		c.Method = r.Method
	}
	if c.Path == "" {
		c.Path = r.URL.EscapedPath()
	}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil && c.Address == "" {
		c.Address = host
	}
	c.Settle = c.Settle || a.RefundOn != nil
	return c
}

// serve passes an allowed request to next and then ends its call. On Lambda it does so
// before the response, since Lambda freezes a function that has answered.
func (a *Asking) serve(w http.ResponseWriter, r *http.Request, next http.Handler, c call) {
	written := &statusWriter{ResponseWriter: w}
	failed := true // if next panics
	defer func() {
		status := written.status
		if failed {
			status = http.StatusInternalServerError
		}
		cost, due := c.due(status, a.RefundOn)
		if !due || c.settled.Swap(true) {
			return
		}
		end := func() {
			_, err := c.settler.settle(context.WithoutCancel(r.Context()), c.decision.Settlement, cost)
			if err != nil && !errors.Is(err, errSettledBefore) {
				a.log().WarnContext(r.Context(), "the cost of a call stays charged", "cause", err)
			}
		}
		if os.Getenv("AWS_LAMBDA_FUNCTION_NAME") != "" {
			end()
			return
		}
		a.ending.Go(end)
	}()
	next.ServeHTTP(written, r.WithContext(context.WithValue(r.Context(), contextKey{}, c)))
	failed = false
}

// due returns the cost with which a call is to be settled at its end: nothing after a
// failure, what it took where a limit at once waits for its end.
func (c call) due(status int, refundOn func(int) bool) (cost any, due bool) {
	switch {
	case c.decision.Settlement == "":
		return nil, false
	case refundOn != nil && refundOn(status):
		return 0, true
	}
	return struct{}{}, c.decision.AtOnce
}

// Wait waits until the calls of all answered requests have ended. Call it after the
// server's Shutdown.
func (a *Asking) Wait() { a.ending.Wait() }

func (a *Asking) log() *slog.Logger { return (&Middleware{Log: a.Log}).log() }

// statusWriter keeps the status of a response.
type statusWriter struct {
	http.ResponseWriter

	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if informational := status < http.StatusOK; w.status == 0 && !informational {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets an http.ResponseController find what the server's writer can do.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher, for handlers that stream.
func (w *statusWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Hijack implements http.Hijacker, for WebSockets.
func (w *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}
