package changes

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
	"tidegate/internal/usage/routecount"
	"tidegate/web/templates"
)

const (
	maxRefused     = 10_000 // latest entries of refused calls that a preview uses
	maxNamedRoutes = 3      // routes that a preview names
)

// PreviewKey describes an edit of a key: its changes and, if its open routes change, the
// calls of the last hour that the new ones would have refused. Calls by route are counted
// per plan, so the number for a key is a range.
func (c *Changes) PreviewKey(r *http.Request, set *policy.Set, before,
	after policy.Key) (*templates.Preview, error) {
	p := &templates.Preview{Changes: OfKey(set, before, after)}
	oldPlan, _ := set.Plan(before.Plan)
	newPlan, _ := set.Plan(after.Plan)
	if slices.Equal(before.Allow, after.Allow) && slices.Equal(oldPlan.Allow, newPlan.Allow) {
		return p, nil
	}
	now := time.Now()
	counts, err := c.usage.Routes(r.Context(), before.Plan, now.Add(-PreviewSpan), now)
	if err != nil {
		return nil, err
	}
	points, err := c.usage.Series(r.Context(), before.ID, now.Add(-PreviewSpan).Truncate(routecount.Period),
		now, time.Minute)
	if err != nil {
		return nil, err
	}
	refused, cut, err := c.refusedForRoute(r.Context(), denylog.Query{Subject: before.ID}, now)
	if err != nil {
		return nil, err
	}
	old, current := newOpenRoutes(before.Allow, oldPlan.Allow), newOpenRoutes(after.Allow, newPlan.Allow)
	result := reopened{cut: cut}
	for _, d := range refused {
		result.add(d, old, current)
	}
	p.Effects = []string{current.check(counts).keyText(usage.Sum(points).Calls()) + result.text()}
	return p, nil
}

// previewPlanRoutes describes which calls of the last hour the open routes of p would
// have refused; empty if the plan has the same routes in set.
func (c *Changes) previewPlanRoutes(ctx context.Context, set *policy.Set, p policy.Plan,
	now time.Time) (string, error) {
	old, _ := set.PlanByNumber(p.Number)
	if slices.Equal(old.Allow, p.Allow) {
		return "", nil
	}
	counts, err := c.usage.Routes(ctx, old.Name, now.Add(-PreviewSpan), now)
	if err != nil {
		return "", err
	}
	refused, cut, err := c.refusedForRoute(ctx, denylog.Query{}, now)
	if err != nil {
		return "", err
	}
	// The denial log has no plans, so they are read from the keys.
	ids := map[string]bool{}
	for _, d := range refused {
		ids[d.Subject] = true
	}
	keys, err := c.keys.Many(ctx, set, slices.Collect(maps.Keys(ids)))
	if err != nil {
		return "", err
	}
	ofPlan := map[string]policy.Key{}
	for _, k := range keys {
		if k.Plan == old.Name {
			ofPlan[k.ID] = k
		}
	}
	result := reopened{cut: cut}
	for _, d := range refused {
		if k, found := ofPlan[d.Subject]; found {
			result.add(d, newOpenRoutes(k.Allow, old.Allow), newOpenRoutes(k.Allow, p.Allow))
		}
	}
	return newOpenRoutes(p.Allow).check(counts).planText() + result.text(), nil
}

// refusedForRoute returns the denial log's entries of the last hour for calls that were
// refused for their route and whose caller is known. cut reports that it left out older
// entries.
func (c *Changes) refusedForRoute(ctx context.Context, q denylog.Query,
	now time.Time) (refused []denylog.Entry, cut bool, err error) {
	q.Cause, q.From, q.To = cause.Access, now.Add(-PreviewSpan), now
	for d, err := range c.usage.EveryDenial(ctx, q) {
		if err != nil {
			return nil, false, err
		}
		if len(refused) == maxRefused {
			return refused, true, nil
		}
		if d.Subject != "" {
			refused = append(refused, d)
		}
	}
	return refused, false, nil
}

// openRoutes are the lists of a plan and a key. A call must match each of them.
type openRoutes []*route.List

// newOpenRoutes leaves out empty lists. A list that is not valid opens no route.
func newOpenRoutes(allow ...[]route.Pattern) openRoutes {
	var lists openRoutes
	for _, patterns := range allow {
		if len(patterns) == 0 {
			continue
		}
		list, err := route.NewList(patterns)
		if err != nil {
			list = &route.List{}
		}
		lists = append(lists, list)
	}
	return lists
}

// covers reports which calls of a route the lists open. Without a list they open all.
func (o openRoutes) covers(called route.Call) route.Coverage {
	coverage := route.Every
	for _, list := range o {
		coverage = min(coverage, list.Covers(called))
	}
	return coverage
}

// check sorts calls by route into those that the lists open, refuse, or may refuse.
func (o openRoutes) check(counts map[routecount.Route]int64) routeResult {
	r := routeResult{counts: counts}
	for called, calls := range counts {
		r.calls += calls
		coverage := o.covers(route.Call{API: called.API, Stage: called.Stage, Method: called.Method,
			Path: called.Path})
		switch {
		case called == routecount.Route{Plan: called.Plan} || coverage == route.Some:
			r.unclear += calls
			r.partly = append(r.partly, called)
		case coverage == route.None:
			r.refused += calls
			r.closed = append(r.closed, called)
		}
	}
	for _, routes := range [][]routecount.Route{r.closed, r.partly} {
		slices.SortFunc(routes, func(a, b routecount.Route) int {
			return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.Path+a.Method, b.Path+b.Method))
		})
	}
	return r
}

// routeResult is the effect of open routes on calls by route.
type routeResult struct {
	calls   int64
	refused int64
	unclear int64 // refused depending on their path, or not recorded by route
	// closed are the routes of refused calls, partly those of unclear calls, both by
	// calls, most first.
	closed, partly []routecount.Route
	counts         map[routecount.Route]int64 // calls by route
}

// planText describes the calls of a plan that would be refused.
func (r routeResult) planText() string {
	if r.calls == 0 {
		return "No route was called with this plan in the last hour."
	}
	text := "In the last hour, this would have refused " + page.Number(r.refused) + " of the plan's " +
		page.Number(r.calls) + " calls for their route" + r.routesText(r.closed)
	if r.unclear > 0 {
		text += " For " + page.Number(r.unclear) + " other calls, it depends on the path" +
			r.routesText(r.partly)
	}
	return text
}

// keyText describes how many of a key's calls can be among the refused calls of the plan.
func (r routeResult) keyText(calls int64) string {
	if calls == 0 {
		return "No calls in the last hour to compare."
	}
	total := max(r.calls, calls)
	least, most := max(0, calls-total+r.refused), min(calls, r.refused+r.unclear+total-r.calls)
	count := page.Number(least)
	if least != most {
		count = "between " + page.Number(least) + " and " + page.Number(most)
	}
	text := "In the last hour, this would have refused " + count + " of the key's " + page.Number(calls) +
		" calls for their route. Routes are counted per plan, not per key: of the plan's " +
		page.Number(total) + " calls, it would have refused " + page.Number(r.refused) +
		r.routesText(r.closed)
	if r.unclear > 0 {
		text += " For " + page.Number(r.unclear) + " others, it depends on the path" + r.routesText(r.partly)
	}
	return text
}

// routesText ends a sentence with the names and calls of the first routes.
func (r routeResult) routesText(routes []routecount.Route) string {
	text := ""
	for i, c := range routes[:min(len(routes), maxNamedRoutes)] {
		name := "not recorded by route"
		if c.Path != "" {
			name = c.Method + " " + page.Clip(c.Path, page.MaxName)
		}
		text += []string{": ", ", "}[min(i, 1)] + name + " (" + page.Number(r.counts[c]) + ")"
	}
	if more := len(routes) - maxNamedRoutes; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text + "."
}

// reopened is the effect of new open routes on calls that were refused for their route.
type reopened struct {
	calls, opens int64
	cut          bool // only the latest entries were used
}

// add adds an entry of the denial log. If the old lists open its route, the call was
// refused for the spelling of its path, which the new lists do not change.
func (r *reopened) add(d denylog.Entry, old, current openRoutes) {
	called := route.Call{API: d.API, Stage: d.Stage, Method: d.Method, Path: d.Path}
	r.calls += d.Calls
	if old.covers(called) < route.Every && current.covers(called) == route.Every {
		r.opens += d.Calls
	}
}

func (r *reopened) text() string {
	if r.calls == 0 {
		return ""
	}
	text := " Of " + page.Number(r.calls) + " calls refused for their route, this would open " +
		page.Number(r.opens) + "."
	if r.cut {
		text += " Only the latest " + page.Number(maxRefused) + " entries of the denial log were checked."
	}
	return text
}
