package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"tidegate/functions/admin/api/keys"
	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/answer"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

type explainInput struct {
	Key       string `query:"key" required:"true" maxLength:"64" doc:"Id of the calling key"`
	Method    string `query:"method" default:"GET" maxLength:"16" doc:"HEAD falls under the routes of GET too"`
	Path      string `query:"path" default:"/" maxLength:"2000" pattern:"^/"`
	API       string `query:"api" maxLength:"64"`
	Stage     string `query:"stage" maxLength:"128"`
	Address   string `query:"address" maxLength:"45" doc:"Address of the client; needed for networks and for limits of each address"`
	Forwarded string `query:"forwarded" maxLength:"1000" doc:"Value of the header that TRUSTED_PROXIES reads; address is then the one that API Gateway sees"`
}

// Explanation says what a call would get now and why.
type Explanation struct {
	Address     string           `json:"address,omitempty" doc:"The client's address that counts"`
	AddressWhy  string           `json:"addressWhy,omitempty" doc:"Which address counts and why"`
	Allowed     bool             `json:"allowed"`
	Refused     string           `json:"refused,omitempty" doc:"Why the caller is refused before any limit applies"`
	Exempt      bool             `json:"exempt" doc:"The client's network is exempt from limits"`
	WouldAllow  bool             `json:"wouldAllow" doc:"Whether the call is allowed if every limit is enforced"`
	BannedUntil *time.Time       `json:"bannedUntil,omitempty"`
	NextFree    *time.Time       `json:"nextFree,omitempty" doc:"When the same call is allowed; absent if it is allowed now"`
	Plan        string           `json:"plan"`
	Override    string           `json:"override,omitempty" enum:"override,group" doc:"An override in force: of the key, or of its group"`
	Route       string           `json:"route,omitempty" doc:"Name of the call's route, as a backend is told"`
	Cost        int64            `json:"cost" doc:"In the unit of limits without one"`
	CostFrom    string           `json:"costFrom,omitempty" doc:"Name of the route that says the cost; absent for the default of 1"`
	Routes      []limits.Matched `json:"routes" doc:"Routes that the call falls under, the most specific first"`
	Limits      []app.LimitState `json:"limits" doc:"Every limit that applies, before the call"`
	Response    Response         `json:"response" doc:"Response that the client of a REST API receives"`
}

// Response is an answer as a client sees it.
type Response struct {
	Status     int      `json:"status" doc:"HTTP status; 0 if the call is allowed, since the backend answers"`
	RateLimit  string   `json:"rateLimit,omitempty" doc:"Header RateLimit"`
	Policy     string   `json:"rateLimitPolicy,omitempty" doc:"Header RateLimit-Policy"`
	RetryAfter int64    `json:"retryAfter,omitempty" doc:"Header Retry-After, seconds"`
	Type       string   `json:"type,omitempty"`
	Detail     string   `json:"detail,omitempty"`
	Violated   []string `json:"violatedPolicies,omitempty"`
}

func (a *api) registerExplain() {
	rest.Register(a.Group("usage"), rest.Operation{
		Pattern: "GET /explain", ID: "explain-call", Role: auth.Viewer,
		Summary: "Explain what a call would get now",
		Details: "Counts no call.",
	}, a.explain)
}

// call returns the call, and why its address counts.
func (a *api) callOf(in *explainInput) (c enforce.Call, why string, err error) {
	c = enforce.Call{Route: route.Call{API: in.API, Stage: in.Stage, Method: strings.ToUpper(in.Method),
		Path: in.Path}}
	if in.Address == "" {
		return c, "", nil
	}
	var ok bool
	if c.Address, c.Network, why, ok = app.ClientOf(a.Proxies, in.Address, in.Forwarded); !ok {
		return c, "", rest.Invalid("query.address", "must be an address such as 203.0.113.7 or 2001:db8::1")
	}
	return c, why, nil
}

func (a *api) explain(ctx context.Context, in *explainInput) (*rest.Body[Explanation], error) {
	call, why, err := a.callOf(in)
	if err != nil {
		return nil, err
	}
	k, err := keys.Get(ctx, a.Keys, in.Key)
	if err != nil {
		return nil, err
	}
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	e, err := a.Checker.Explain(ctx, set, k, call)
	if err != nil {
		return nil, err
	}
	out := explanationOf(set, e)
	if out.AddressWhy = why; why != "" {
		out.Address = call.Address.String()
	}
	return rest.Answer(out), nil
}

func explanationOf(set *policy.Set, e enforce.Explanation) Explanation {
	c := e.Result
	out := Explanation{
		Allowed: c.Allowed, Refused: e.Refused, Exempt: e.Exempt, WouldAllow: c.WouldAllow,
		BannedUntil: schema.Given(c.BannedUntil), NextFree: schema.After(c.Now, c.RetryAfter()),
		Plan: c.Plan, Route: c.Route, Cost: c.Cost, CostFrom: e.CostFrom,
		Routes: append([]limits.Matched{}, e.Routes...),
		Limits: app.StatesOf(set, c.Limits), Response: responseOf(e),
	}
	if e.Effective.Override != nil {
		out.Override = e.Effective.Source
	}
	return out
}

func responseOf(e enforce.Explanation) Response {
	if e.Refused != "" {
		return Response{Status: http.StatusUnauthorized, Type: rest.AboutBlank, Detail: answer.Unauthorized}
	}
	response := answer.To(e.Result)
	r := Response{RateLimit: response.RateLimit, Policy: response.RateLimitPolicy}
	if !e.Result.Allowed {
		d := response.Denial
		r.Status, r.RetryAfter, r.Type, r.Detail, r.Violated = http.StatusTooManyRequests, d.RetryAfter,
			d.Type, d.Detail, d.Violated
	}
	return r
}
