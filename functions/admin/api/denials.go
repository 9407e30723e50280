package api

import (
	"context"
	"errors"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/list"
	"tidegate/internal/cause"
	"tidegate/internal/records"
)

// Denial is the denied or refused calls of a caller in a minute, by one limit or for one
// cause and reason.
type Denial struct {
	Time       time.Time `json:"time" doc:"Time of the first call, by the clock of the Lambda environment"`
	Reference  string    `json:"reference,omitempty" doc:"As in the body of each 429"`
	Key        string    `json:"key,omitempty" doc:"Id of the key or caller; absent if it proved nothing"`
	Calls      int64     `json:"calls" doc:"Number of calls in this minute"`
	Cause      string    `json:"cause" enum:"missing,malformed,unknown,revoked,expired,old-secret,address,access,limit,ban,unavailable"`
	Limit      string    `json:"limit,omitempty" doc:"Limit that denied the calls, as in the client's response" example:"10 per 10 seconds"`
	Reason     string    `json:"reason,omitempty" doc:"Claim, key or setting that is the cause, of refused tokens and the like" example:"claim aud has none of the configured audiences"`
	Plan       string    `json:"plan,omitempty"`
	Group      string    `json:"group,omitempty" doc:"Group of the key"`
	Route      string    `json:"route,omitempty" doc:"Name of the most specific route"`
	Method     string    `json:"method,omitempty" doc:"HTTP method; other if API Gateway does not know it"`
	Path       string    `json:"path,omitempty" doc:"Pattern of the route, not the requested path" example:"/orders/{id}"`
	API        string    `json:"api,omitempty"`
	Stage      string    `json:"stage,omitempty"`
	Network    string    `json:"network,omitempty" doc:"The /24 or /48 of the caller's address" example:"192.0.2.0/24"`
	RetryAfter int64     `json:"retryAfter" doc:"Wait until a retry passes, in milliseconds; 0 if none ever does, and for a refusal"`
	Requests   []string  `json:"requests,omitempty" doc:"API Gateway's ids of the first 20 calls; only with reference or request"`
}

type (
	denialsInput struct {
		Reference string    `query:"reference" maxLength:"120" doc:"Only the denial that a 429 with this reference tells of. Other parameters are ignored"`
		Request   string    `query:"request" maxLength:"48" doc:"Only the denial of the call with this id of API Gateway, among the first 20 of its caller, limit and minute. Other parameters are ignored"`
		Key       string    `query:"key" maxLength:"64" doc:"Only denials of this key or caller"`
		Plan      string    `query:"plan" maxLength:"200"`
		Group     string    `query:"group" maxLength:"64" doc:"Only denials of this group's keys"`
		Route     string    `query:"route" maxLength:"200" doc:"Only denials of this route, by its name"`
		Limit     string    `query:"limit" maxLength:"200" doc:"The text in limit of an entry"`
		Method    string    `query:"method" maxLength:"20"`
		Path      string    `query:"path" maxLength:"200" doc:"The pattern in path of an entry"`
		Cause     string    `query:"cause" enum:"missing,malformed,unknown,revoked,expired,old-secret,address,access,limit,ban,unavailable"`
		From      time.Time `query:"from" doc:"Default: 24 hours ago. Earliest: 50 hours ago"`
		To        time.Time `query:"to" doc:"Default: now"`
		list.Paging
	}
	denialsOutput struct {
		Body struct {
			Items []Denial `json:"items"`
			Next  string   `json:"next,omitempty" doc:"Value of after for the next page; absent on the last page. Other pages can be short too"`
		}
	}
)

func (a *api) registerDenials() {
	rest.Register(a.Group("usage"), rest.Operation{
		Pattern: "GET /denials", ID: "list-denials", Role: auth.Viewer,
		Summary: "List the denied and refused calls of the last 50 hours, newest first",
		Details: "An item is the calls of one caller, one limit or cause, and one minute. It tells of the " +
			"first of them. Numbers of calls by cause are in the history of GET /overview and of a key's " +
			"usage.",
	}, a.listDenials)
}

func (a *api) listDenials(ctx context.Context, in *denialsInput) (*denialsOutput, error) {
	if in.Reference != "" || in.Request != "" {
		return a.findDenial(ctx, in.Reference, in.Request)
	}
	now := time.Now()
	q := records.DenialQuery{
		Caller: in.Key, Cause: cause.Named(in.Cause), Plan: in.Plan, Group: in.Group, Route: in.Route,
		Limit: in.Limit, Method: in.Method, Path: in.Path, From: in.From, To: in.To, After: in.After,
		Count: in.Count,
	}
	if newest := now.Add(time.Minute); q.To.IsZero() || q.To.After(newest) {
		q.To = newest
	}
	if q.From.IsZero() {
		q.From = now.Add(-24 * time.Hour)
	}
	if oldest := now.Add(-records.MinutesKept); q.From.Before(oldest) {
		q.From = oldest
	}
	if !q.From.Before(q.To) {
		return nil, rest.Invalid("query.to", "must be after from, and within the last 50 hours")
	}
	page, err := a.Records.Denials(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &denialsOutput{}
	out.Body.Items, out.Body.Next = make([]Denial, len(page.Denials)), page.Next
	for i := range page.Denials {
		out.Body.Items[i] = denialOf(&page.Denials[i])
	}
	return out, nil
}

// findDenial returns the one denial that a reference or the id of a request names; an
// empty list if it is not kept.
func (a *api) findDenial(ctx context.Context, reference, request string) (*denialsOutput, error) {
	found, err := app.FindDenial(ctx, a.Records, reference, request)
	out := &denialsOutput{}
	out.Body.Items = []Denial{}
	switch {
	case errors.Is(err, app.ErrReference):
		return nil, rest.Invalid("query.reference", "is not a reference: copy it from the body of a 429")
	case errors.Is(err, records.ErrNotKept):
		return out, nil
	case err != nil:
		return nil, err
	}
	out.Body.Items = append(out.Body.Items, denialOf(&found))
	return out, nil
}

func denialOf(d *records.Denial) Denial {
	out := Denial{
		Time: d.Time, Reference: d.Reference(), Key: d.Caller, Calls: d.Calls, Cause: d.Cause.String(),
		Limit: d.Limit, Reason: d.Reason, Plan: d.Plan, Group: d.Group, Route: d.Route, Method: d.Method,
		Path: d.Path, API: d.API, Stage: d.Stage, RetryAfter: d.RetryAfter.Milliseconds(),
		Requests: d.Requests,
	}
	if d.Network.IsValid() {
		out.Network = d.Network.String()
	}
	return out
}
