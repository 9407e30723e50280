package api

import (
	"context"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
	"tidegate/internal/cause"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
)

// Denial is an entry of the denial log.
type Denial struct {
	Time       time.Time `json:"time" doc:"Time in milliseconds, by the clock of the Lambda environment"`
	Subject    string    `json:"subject,omitempty" doc:"Id of the key or caller; absent if Valkey could not verify it"`
	Plan       string    `json:"plan,omitempty"`
	Group      string    `json:"group,omitempty" doc:"Group of the key, if a limit or a ban denied the call"`
	Cause      string    `json:"cause" enum:"malformed,revoked,expired,old-secret,address,access,limit,ban,unavailable,shadow"`
	Limit      string    `json:"limit,omitempty" doc:"Limit that denied the call, or would have, as in the client's response" example:"10 per 10 seconds"`
	Rule       string    `json:"rule,omitempty" doc:"Name of the call's route, as a backend is told"`
	Method     string    `json:"method" doc:"HTTP method; other if API Gateway does not know it"`
	Path       string    `json:"path" doc:"Pattern of the route, not the requested path" example:"/orders/{id}"`
	API        string    `json:"api"`
	Stage      string    `json:"stage"`
	Network    string    `json:"network,omitempty" doc:"The /24 or /48 of the caller's address" example:"192.0.2.0/24"`
	RetryAfter int64     `json:"retryAfter" doc:"Wait until a retry passes, in milliseconds; 0 for a limit below the call's cost, which never passes"`
	Request    string    `json:"request,omitempty" doc:"Request id of API Gateway"`
	Reason     string    `json:"reason,omitempty" doc:"Claim, key or setting that is the cause, of refused tokens and the like" example:"claim aud has none of the configured audiences"`
	Calls      int64     `json:"calls" doc:"Number of calls that the entry stands for: 1, or more of the same minute"`
}

// Refusals are the numbers of refused credentials by cause.
type Refusals struct {
	Missing   int64 `json:"missing"`
	Malformed int64 `json:"malformed"`
	Unknown   int64 `json:"unknown"`
	Revoked   int64 `json:"revoked"`
	Expired   int64 `json:"expired"`
	OldSecret int64 `json:"oldSecret"`
	Address   int64 `json:"address"`
	Access    int64 `json:"access"`
}

func refusalsOf(r usage.Refusals) Refusals {
	return Refusals{
		Missing: r.Of(cause.Missing), Malformed: r.Of(cause.Malformed), Unknown: r.Of(cause.Unknown),
		Revoked: r.Of(cause.Revoked), Expired: r.Of(cause.Expired), OldSecret: r.Of(cause.OldSecret),
		Address: r.Of(cause.Address), Access: r.Of(cause.Access),
	}
}

type (
	denialsInput struct {
		Key     string    `query:"key" maxLength:"64" doc:"Only denials of this key or caller"`
		Plan    string    `query:"plan" maxLength:"200"`
		Group   string    `query:"group" maxLength:"64" doc:"Only denials of this group's keys"`
		Rule    string    `query:"rule" maxLength:"200" doc:"Only denials of calls of this route, by its name"`
		Limit   string    `query:"limit" maxLength:"200" doc:"The text in limit of an entry"`
		Route   string    `query:"route" maxLength:"220" doc:"Method and path of an entry, such as GET /orders/{id}"`
		Request string    `query:"request" maxLength:"48" doc:"Only the denials of the call with this id of API Gateway"`
		Cause   string    `query:"cause" enum:"malformed,revoked,expired,old-secret,address,access,limit,ban,unavailable,would-block,shadow" doc:"would-block, shadow: calls that passed and that limits in shadow would have denied. Only these causes list them"`
		From    time.Time `query:"from" doc:"Default and earliest: 24 hours ago"`
		To      time.Time `query:"to" doc:"Default: now"`
		rest.Paging
	}
	denialsOutput struct {
		Body struct {
			Items      []Denial `json:"items"`
			Next       string   `json:"next,omitempty" doc:"Value of after for the next page; absent on the last page. Other pages can be short too"`
			Refused    Refusals `json:"refused" doc:"Refused credentials in the period; with key, only those of the key"`
			Unreadable int64    `json:"unreadable" doc:"Entries of these hours that were skipped, because they cannot be read"`
			Unlisted   int64    `json:"unlisted" doc:"Calls in the period, of the key if given, that were counted and not logged. With a cause such as would-block: such calls"`
		}
	}
)

func (a *api) registerDenials() {
	rest.Register(a.Group("usage"), rest.Operation{
		Pattern: "GET /denials", ID: "list-denials", Role: auth.Viewer,
		Summary: "List the denied calls of the last 24 hours, newest first",
	}, a.listDenials)
}

func (a *api) listDenials(ctx context.Context, in *denialsInput) (*denialsOutput, error) {
	now := time.Now()
	q := denylog.Query{
		Subject: in.Key, Plan: in.Plan, Group: in.Group, Rule: in.Rule, Limit: in.Limit,
		Route: in.Route, Request: in.Request, From: in.From, To: in.To, After: in.After, Count: in.Count,
	}
	q.SetCause(in.Cause)
	if newest := now.Add(time.Minute); q.To.IsZero() || q.To.After(newest) {
		q.To = newest
	}
	if oldest := now.Add(-denylog.Retention); q.From.Before(oldest) {
		q.From = oldest
	}
	if !q.From.Before(q.To) {
		return nil, rest.Invalid("query.to", "must be after from, and within the last 24 hours")
	}
	page, err := a.Usage.Denials(ctx, q)
	if err != nil {
		return nil, err
	}
	counted, err := a.Usage.Refusals(ctx, q.Subject, q.From, q.To, time.Minute)
	if err != nil {
		return nil, err
	}
	out := &denialsOutput{}
	out.Body.Items, out.Body.Next = make([]Denial, len(page.Denials)), page.Next
	for i := range page.Denials {
		out.Body.Items[i] = denialOf(&page.Denials[i])
	}
	out.Body.Unreadable = page.Unreadable
	out.Body.Refused, out.Body.Unlisted = refusalsOf(counted), counted.Unlogged
	if q.OnTrial {
		out.Body.Unlisted = counted.UnloggedTrials
	}
	return out, nil
}

func denialOf(l *denylog.Entry) Denial {
	d := Denial{
		Time: l.Time, Subject: l.Subject, Plan: l.Plan, Group: l.Group, Cause: l.Cause.String(),
		Limit: l.Limit, Rule: l.Rule, Method: l.Method, Path: l.Path, API: l.API, Stage: l.Stage,
		RetryAfter: l.RetryAfter.Milliseconds(), Request: l.Request, Calls: l.Calls,
		Reason: l.Reason,
	}
	if l.Network.IsValid() {
		d.Network = l.Network.String()
	}
	return d
}
