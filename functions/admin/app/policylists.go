package app

import (
	"context"
	"strconv"
	"time"

	"tidegate/functions/admin/list"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// PolicyQuery selects a page of the plans or the routes of the policy.
type PolicyQuery struct{ list.Paging }

// ListedPlan is a plan in a list.
type ListedPlan struct {
	policydoc.Plan

	Keys int64       `json:"keys"`
	Of   policy.Plan `json:"-"`
}

// Plans returns the plans in the order in which they were saved.
func (r *Registry) Plans(ctx context.Context, q *PolicyQuery) (list.Page[ListedPlan], error) {
	set, err := r.Set(ctx)
	if err != nil {
		return list.Page[ListedPlan]{}, err
	}
	counts, err := r.PlanCounts(ctx, set)
	if err != nil {
		return list.Page[ListedPlan]{}, err
	}
	plans, next, err := pageOf(set.Plans, q.Paging)
	return list.Of(plans, next, func(p *policy.Plan) ListedPlan {
		return ListedPlan{policydoc.PlanOf(*p), counts[p.Number], *p}
	}), err
}

// ListedRoute is a route in a list.
type ListedRoute struct {
	policydoc.Route

	Limits  []string        `json:"limits" doc:"Limits on the route, with the plan where they stand"`
	Calls   *records.Counts `json:"lastHour,omitempty" doc:"Calls of the last hour; absent behind the 50th route of a page"`
	AtLeast bool            `json:"atLeast,omitempty" doc:"Calls of the last hour may be missing"`
	Of      limits.Route    `json:"-"`
}

// maxRouteCounts is the number of routes of a page whose calls are read.
const maxRouteCounts = 50

// Routes returns the routes in the order in which they were saved.
func (r *Registry) Routes(ctx context.Context, q *PolicyQuery) (list.Page[ListedRoute], error) {
	set, err := r.Set(ctx)
	if err != nil {
		return list.Page[ListedRoute]{}, err
	}
	routes, next, err := pageOf(set.Routes, q.Paging)
	if err != nil {
		return list.Page[ListedRoute]{}, err
	}
	names := IDsOf(routes[:min(len(routes), maxRouteCounts)], func(r limits.Route) string { return r.Name })
	counted, err := r.calls.Routes(ctx, names, records.Last(activitySpan, 0, time.Now()))
	found := list.Of(routes, next, func(route *limits.Route) ListedRoute {
		return ListedRoute{Route: policydoc.RouteOf(*route), Limits: limitsOn(set, route.Name), Of: *route}
	})
	for i := range counted {
		sum := counted[i].Sum()
		found.Items[i].Calls, found.Items[i].AtLeast = &sum, counted[i].Incomplete()
	}
	return found, err
}

// pageOf returns a page of a part of the policy. A cursor is the number of items before it.
func pageOf[T any](all []T, p list.Paging) (page []T, next string, err error) {
	from := 0
	if p.After != "" {
		if from, err = strconv.Atoi(p.After); err != nil || from < 1 || from > len(all) {
			return nil, "", list.ErrCursor
		}
	}
	end := min(len(all), from+p.Count)
	if end < len(all) {
		next = strconv.Itoa(end)
	}
	return all[from:end], next, nil
}

// limitsOn lists the limits that name a route, with the plan where they stand.
func limitsOn(set *policy.Set, name string) []string {
	texts := []string{}
	add := func(of string, all []limits.Limit) {
		for _, l := range all {
			if l.On == name {
				texts = append(texts, of+l.String())
			}
		}
	}
	for _, p := range set.Plans {
		add(p.Name+": ", p.Limits)
	}
	add("", set.Limits)
	return texts
}
