package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"

	"tidegate/functions/check/authorizer"
	"tidegate/internal/answer"
	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// Checker decides and settles calls. It logs its errors.
type Checker interface {
	Check(ctx context.Context, call enforce.Call) (enforce.Result, error)
	Settle(ctx context.Context, text string, actual limits.Costs) (enforce.Settlement, error)
}

// Identities names callers. It is identity.Resolver.
type Identities interface {
	// Secret reads an API key. Its error quotes nothing of it.
	Secret(text string) (apikey.Secret, error)
	// Token returns the id of a token's caller.
	Token(issuer, subject string) string
	// Network returns the prefix whose clients share limits.
	Network(a netip.Addr) netip.Prefix
}

// Handler answers direct calls. It is safe for concurrent use.
type Handler struct {
	Checker    Checker
	Identities Identities
	// Refused, unless nil, is called for every call without a good credential.
	Refused func(ctx context.Context, r authorizer.Refused)
}

// Response is the answer to a call.
type Response struct {
	Allowed bool              `json:"allowed"`
	Status  int               `json:"status"` // for the client: 200, 401, 403 or 429
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"` // of a denial, RFC 9457
	// Context is what an authorizer adds for backends: docs/backends.md has its keys.
	Context map[string]any `json:"context,omitempty"`
}

// Settled is the answer to a call that settles another.
type Settled struct {
	Reserved map[string]int64 `json:"reserved"` // by unit; "cost" without one
	Actual   map[string]int64 `json:"actual"`
	Owed     int64            `json:"owed"`    // above a limit, which denies until it has drained
	Partial  bool             `json:"partial"` // a limit still counts what was to be given back
}

// Invoke answers a call. A *Mistake is of whoever makes it, a *Conflict of a settlement that
// comes too late; store errors of a settlement are returned as they are. A check has no
// other error: while Valkey is unavailable, the plan decides.
func (h *Handler) Invoke(ctx context.Context, raw []byte) ([]byte, error) {
	response, err := h.Call(ctx, "", raw)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(response)
	if err != nil {
		return nil, fmt.Errorf("encode response: %w", err)
	}
	return body, nil
}

// Call answers a call as Invoke does, with a Response or a Settled. kind is check or settle
// where the call need not say it; otherwise empty.
func (h *Handler) Call(ctx context.Context, kind string, raw []byte) (any, error) {
	r, err := decode(kind, raw)
	switch {
	case err != nil:
		return nil, err
	case r.Tidegate == "settle":
		return h.settle(ctx, r)
	}
	return h.check(ctx, r)
}

func (h *Handler) check(ctx context.Context, r *request) (Response, error) {
	call := enforce.Call{Settle: r.Settle,
		Route: route.Call{API: r.API, Stage: r.Stage, Method: r.Method, Path: r.Path}}
	if r.Cost != nil {
		call.Costs = r.Cost.Costs
	}
	call.Address, _ = r.address()
	if call.Address.IsValid() {
		call.Network = h.Identities.Network(call.Address)
	}
	if r.Subject != nil {
		call.Kind, call.Subject = policy.Token, h.Identities.Token(r.Issuer, *r.Subject)
		call.Plan, call.Group = r.Plan, r.Group
	} else {
		secret, err := h.Identities.Secret(*r.APIKey)
		if err != nil {
			return h.refuse(ctx, call, &policy.RefusedError{Cause: cause.Malformed})
		}
		call.Kind, call.Subject, call.Secret = policy.APIKey, secret.ID(), secret
	}
	result, err := h.Checker.Check(ctx, call)
	var refusal *policy.RefusedError
	switch {
	case errors.As(err, &refusal):
		return h.refuse(ctx, call, refusal)
	case err != nil:
		return denied(answer.Unavailable(), answer.Answer{}, nil), nil //nolint:nilerr // the Checker logs it
	}
	a := answer.To(result)
	if a.Denial != nil {
		return denied(*a.Denial, a, authorizer.Context(result)), nil
	}
	headers := map[string]string{}
	addFields(headers, a)
	return Response{Allowed: true, Status: http.StatusOK, Headers: headers,
		Context: authorizer.Context(result)}, nil
}

// refuse returns the answer to a caller that may not call. A plan that does not exist is a
// mistake of whoever names it.
func (h *Handler) refuse(ctx context.Context, call enforce.Call, r *policy.RefusedError) (Response, error) {
	if h.Refused != nil {
		h.Refused(ctx, authorizer.Refused{Call: call, Refusal: *r})
	}
	if r.Reason == enforce.NoSuchPlan || r.Reason == enforce.NoPlan {
		return Response{}, invalid("plan: %s", r.Reason)
	}
	p := problem{Type: "about:blank", Status: http.StatusUnauthorized, Detail: answer.Unauthorized}
	headers := map[string]string{"WWW-Authenticate": "Bearer"}
	if !errors.Is(r, policy.ErrUnknownKey) && r.Cause != cause.Malformed || r.Reason != "" {
		p.Status, p.Detail = http.StatusForbidden, "The caller may not make this call."
		headers = map[string]string{}
		if r.Reason != "" {
			p.Detail = "The caller may not make this call: " + r.Reason + "."
		}
	}
	return p.response(headers, nil), nil
}

// denied returns the answer to a call that has to wait.
func denied(d answer.Denial, a answer.Answer, context map[string]any) Response {
	p := problem{Type: d.Type, Status: http.StatusTooManyRequests, Detail: d.Detail, Violated: d.Violated,
		Wait: d.Wait, Reference: d.Reference}
	headers := map[string]string{}
	addFields(headers, a)
	if d.RetryAfter > 0 {
		headers["Retry-After"] = strconv.FormatInt(d.RetryAfter, 10)
	}
	return p.response(headers, context)
}

func addFields(headers map[string]string, a answer.Answer) {
	for name, value := range map[string]string{"RateLimit": a.RateLimit,
		"RateLimit-Policy": a.RateLimitPolicy} {
		if value != "" {
			headers[name] = value
		}
	}
}

// problem is the body of an answer, in the form of RFC 9457, with the members of a REST
// API's 429, but no instance.
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

func (p problem) response(headers map[string]string, context map[string]any) Response {
	full := p
	full.Title, full.Message = http.StatusText(p.Status), p.Detail
	body, _ := json.Marshal(full) // texts and numbers always encode
	headers["Content-Type"], headers["Cache-Control"] = "application/problem+json", "no-store"
	return Response{Status: p.Status, Headers: headers, Body: string(body), Context: context}
}

func (h *Handler) settle(ctx context.Context, r *request) (Settled, error) {
	s, err := h.Checker.Settle(ctx, r.Settlement, r.Cost.Costs)
	switch {
	case errors.Is(err, enforce.ErrSettled), errors.Is(err, enforce.ErrExpired):
		return Settled{}, &Conflict{err}
	case errors.Is(err, enforce.ErrSettlement):
		return Settled{}, invalid("settlement is not one: pass the text of an allowed call's context")
	case err != nil:
		return Settled{}, err
	}
	return Settled{byName(s.Reserved), byName(s.Actual), s.Owed, s.Partial}, nil
}

// byName names the unit of a cost without one.
func byName(costs map[string]int64) map[string]int64 {
	named := map[string]int64{}
	for unit, cost := range costs {
		if unit == "" {
			unit = "cost"
		}
		named[unit] = cost
	}
	return named
}
