package app

import (
	"context"
	"errors"
	"time"

	"tidegate/functions/admin/list"
	"tidegate/internal/cause"
	"tidegate/internal/records"
)

// DenialQuery selects denied and refused calls.
type DenialQuery struct {
	Request string `query:"request" maxLength:"200" doc:"Only the denial that a 429 with this reference tells of, or that of the call with this id of API Gateway, among the first 20 of its caller, limit and minute. Other parameters are ignored"`
	Key     string `query:"key" maxLength:"200" doc:"Only denials of this key or caller: its id, or the name of a key"`
	Plan    string `query:"plan" maxLength:"200"`
	Group   string `query:"group" maxLength:"64" doc:"Only denials of this group's keys"`
	Route   string `query:"route" maxLength:"200" doc:"Only denials of this route, by its name"`
	Limit   string `query:"limit" maxLength:"200" doc:"The text in limit of an entry"`
	Method  string `query:"method" maxLength:"20"`
	Path    string `query:"path" maxLength:"200" doc:"The pattern in path of an entry"`
	Cause   string `query:"cause" enum:"missing,malformed,unknown,revoked,expired,old-secret,address,access,limit,ban,unavailable"`
	list.Period
	list.Paging
	IsID    bool   // Key is an id, and no name
	KeyName string // of Key, if it is an existing key; Denials sets it
}

// Denial is the denied or refused calls of a caller in a minute, by one limit or for one
// cause and reason.
type Denial struct {
	records.Denial

	Name       string `json:"name,omitempty" doc:"Name of the key"`
	RetryAfter int64  `json:"retryAfter" doc:"Wait until a retry passes, in milliseconds; 0 if none ever does, and for a refusal"`
	Reference  string `json:"reference,omitempty" doc:"As in the body of each 429"`
}

// NeverPasses reports whether no retry passes, since the limit is below the call's cost.
func (d *Denial) NeverPasses() bool { return d.Cause == cause.Limit && d.RetryAfter == 0 }

// aheadOfUs is how far the clocks that date denials may be ahead of this function's.
const aheadOfUs = time.Minute

// Span returns the period of a query in whole minutes, so that a list and what is counted
// by the minute have the same calls: the last 24 hours without one.
func (q *DenialQuery) Span(now time.Time) (records.Range, error) {
	day := records.Last(24*time.Hour, 0, now)
	from, to, err := q.Bounds(now)
	if q.From.IsZero() && (q.Range == "" || q.Range == "24h") {
		from = day.From
	} else if q.Range == "1h" {
		from = records.Last(time.Hour, 0, now).From
	}
	if to.IsZero() || to.After(now.Add(aheadOfUs)) {
		to = day.To
	}
	span := records.Range{From: from.Truncate(time.Minute), To: to.Add(time.Minute - 1).Truncate(time.Minute)}
	oldest := now.Add(-records.MinutesKept)
	if span.From.Before(oldest) {
		span.From = oldest.Truncate(time.Minute)
	}
	if err == nil && (!span.From.Before(span.To) || !span.To.After(oldest)) {
		err = &list.InvalidError{Name: "to", Message: "must be after from, and within the last 50 hours"}
	}
	return span, err
}

// Denials returns denied and refused calls, newest first.
func (r *Registry) Denials(ctx context.Context, q *DenialQuery) (list.Page[Denial], error) {
	if q.Request != "" {
		return r.findDenial(ctx, q.Request)
	}
	set, err := r.Set(ctx)
	if err != nil {
		return list.Page[Denial]{}, err
	}
	if !q.IsID {
		k, err := r.resolve(ctx, set, &q.Key)
		if err != nil {
			return list.Page[Denial]{}, err
		}
		q.KeyName = k.Name
	}
	now := time.Now()
	span, err := q.Span(now)
	if err != nil {
		return list.Page[Denial]{}, err
	}
	if span.To.After(now) {
		span.To = span.To.Add(aheadOfUs)
	}
	found, err := r.calls.Denials(ctx, records.DenialQuery{
		Caller: q.Key, Cause: cause.Named(q.Cause), Plan: q.Plan, Group: q.Group, Route: q.Route,
		Limit: q.Limit, Method: q.Method, Path: q.Path, From: span.From, To: span.To, After: q.After,
		Count: q.Count,
	})
	if errors.Is(err, records.ErrCursor) {
		err = list.ErrCursor
	}
	if err != nil {
		return list.Page[Denial]{}, err
	}
	return r.named(ctx, found)
}

// named returns denials with the names of their keys.
func (r *Registry) named(ctx context.Context, found records.DenialPage) (list.Page[Denial], error) {
	known, err := Records(ctx, r, nil, found.Denials, func(d records.Denial) string { return d.Caller })
	return list.Of(found.Denials, found.Next, func(d *records.Denial) Denial {
		return Denial{*d, known[d.Caller].Name, d.RetryAfter.Milliseconds(), d.Reference()}
	}), err
}

// findDenial returns the one denial that a reference names, or that of the call with API
// Gateway's id of its request.
func (r *Registry) findDenial(ctx context.Context, request string) (list.Page[Denial], error) {
	find := func() (records.Denial, error) { return r.calls.Request(ctx, request) }
	if ref, ok := records.ParseReference(request); ok {
		find = func() (records.Denial, error) { return r.calls.Find(ctx, ref) }
	}
	found, err := find()
	if errors.Is(err, records.ErrNotKept) {
		return list.Page[Denial]{Items: []Denial{}, Notes: []string{NotFound}}, nil
	}
	if err != nil {
		return list.Page[Denial]{}, err
	}
	return r.named(ctx, records.DenialPage{Denials: []records.Denial{found}})
}

// NotFound says why no denial is found by a reference or the id of a request.
const NotFound = "Denials are kept for 50 hours, with the ids of the first 20 calls of a caller, limit and " +
	"minute. The reference in the body of a 429 finds the others."
