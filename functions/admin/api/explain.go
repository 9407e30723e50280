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
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/answer"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

type explainInput struct {
	Key     string `query:"key" required:"true" maxLength:"64" doc:"Id of the key that calls"`
	Method  string `query:"method" default:"GET" maxLength:"16" doc:"HEAD follows the rule for GET unless a rule names HEAD"`
	Path    string `query:"path" default:"/" maxLength:"2000" pattern:"^/"`
	API     string `query:"api" maxLength:"64"`
	Stage   string `query:"stage" maxLength:"128"`
	Address string `query:"address" maxLength:"45" doc:"Of the client; the lists of addresses and the limits of each address need it"`
}

// Explanation says what a call would get now and why.
type Explanation struct {
	Allowed     bool           `json:"allowed"`
	Refused     string         `json:"refused,omitempty" doc:"Why the caller may not call, whatever the limits"`
	Exempt      bool           `json:"exempt" doc:"The address is not limited"`
	WouldAllow  bool           `json:"wouldAllow" doc:"The verdict if every limit were enforced"`
	BannedUntil *time.Time     `json:"bannedUntil,omitempty"`
	NextFree    *time.Time     `json:"nextFree,omitempty" doc:"When the same call passes, of one that is denied"`
	Source      string         `json:"source" enum:"plan,override" doc:"Where the key's own limits come from"`
	Plan        string         `json:"plan"`
	Rule        string         `json:"rule,omitempty" doc:"The route rule that won"`
	Cost        int64          `json:"cost"`
	Rules       []RuleMatch    `json:"rules" doc:"Route rules that the call falls under"`
	Limits      []AppliedLimit `json:"limits" doc:"Limits that apply"`
	Candidate   []string       `json:"candidate,omitempty" doc:"Candidate limits of the plan, counted but never enforced"`
	Response    Response       `json:"response" doc:"What a client of a REST API gets"`
}

// RuleMatch is a route rule that matches a call.
type RuleMatch struct {
	Name    string `json:"name"`
	Pattern string `json:"pattern" example:"GET /orders/{id}"`
	Won     bool   `json:"won"`
	Reason  string `json:"reason"`
}

// AppliedLimit is a limit that applies to a call.
type AppliedLimit struct {
	Scope string `json:"scope" enum:"key,route,ip,route-ip,global,route-all,group" doc:"What it counts"`
	Mode  string `json:"mode" enum:"enforce,shadow"`
	schema.Window
}

// Response is an answer as a client sees it.
type Response struct {
	Status     int      `json:"status" doc:"0 when the call passes: the backend answers"`
	RateLimit  string   `json:"rateLimit,omitempty" doc:"The field RateLimit"`
	Policy     string   `json:"rateLimitPolicy,omitempty" doc:"The field RateLimit-Policy"`
	RetryAfter int64    `json:"retryAfter,omitempty" doc:"The field Retry-After, seconds"`
	Type       string   `json:"type,omitempty"`
	Detail     string   `json:"detail,omitempty"`
	Violated   []string `json:"violatedPolicies,omitempty"`
}

func (a *api) registerExplain() {
	rest.Register(a.Group("usage"), rest.Operation{
		Pattern: "GET /explain", ID: "explain-call", Role: auth.Viewer,
		Summary: "What a call would get now, and why",
		Details: "Nothing is taken.",
	}, a.explain)
}

func (in *explainInput) call() (enforce.Call, error) {
	c := enforce.Call{Route: route.Call{API: in.API, Stage: in.Stage, Method: strings.ToUpper(in.Method),
		Path: in.Path}}
	if in.Address == "" {
		return c, nil
	}
	var ok bool
	if c.Address, c.Network, ok = app.ParseAddress(in.Address); !ok {
		return c, rest.Invalid("query.address", "must be an address such as 203.0.113.7 or 2001:db8::1")
	}
	return c, nil
}

func (a *api) explain(ctx context.Context, in *explainInput) (*rest.Body[Explanation], error) {
	call, err := in.call()
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
	return rest.Answer(explanationOf(set, e)), nil
}

func explanationOf(set *policy.Set, e enforce.Explanation) Explanation {
	c := e.Result
	out := Explanation{
		Allowed: c.Allowed, Refused: e.Refused, Exempt: e.Exempt, WouldAllow: c.WouldAllow,
		BannedUntil: schema.Given(c.BannedUntil), NextFree: schema.After(c.Now, c.RetryAfter()),
		Source: e.Effective.Source, Plan: c.Plan, Rule: c.Rule, Cost: c.Cost, Rules: []RuleMatch{},
		Limits: []AppliedLimit{}, Response: responseOf(e),
	}
	for _, m := range e.Matches {
		r := set.Routes[m.Index]
		out.Rules = append(out.Rules, RuleMatch{r.Name, r.Pattern.String(), m.Won, m.Reason})
	}
	for _, l := range c.Limits {
		window := schema.WindowOf(l.Usage, c.Now)
		out.Limits = append(out.Limits, AppliedLimit{l.Scope, string(l.Mode), window})
	}
	if c.Source == "plan" && len(e.Effective.Plan.Candidate) > 0 {
		out.Candidate = policydoc.Each(e.Effective.Plan.Candidate)
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
