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
	maxRouted      = 10_000 // refused calls that a preview looks at; the latest count
	maxNamedRoutes = 3      // that a preview names
)

// opened are the lists that a call must match, the plan's and the key's.
type opened []*route.List

// openedBy leaves out lists that are empty. One that is not valid opens nothing.
func openedBy(allow ...[]route.Pattern) opened {
	var lists opened
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

// covers reports how much of a route the lists open. Without a list that is every call.
func (o opened) covers(called route.Call) route.Coverage {
	all := route.Every
	for _, list := range o {
		all = min(all, list.Covers(called))
	}
	return all
}

// routed is what lists would have made of calls by route.
type routed struct {
	calls, refused int64
	unclear        int64 // it depends on the path, or the route was not recorded
	// closed are the routes that are refused, partly those of which it depends on the
	// path, each by most calls first.
	closed, partly []routecount.Route
	by             map[routecount.Route]int64
}

func (o opened) hold(by map[routecount.Route]int64) routed {
	r := routed{by: by}
	for called, calls := range by {
		r.calls += calls
		covered := o.covers(route.Call{API: called.API, Stage: called.Stage, Method: called.Method,
			Path: called.Path})
		switch {
		case called == routecount.Route{Plan: called.Plan} || covered == route.Some:
			r.unclear += calls
			r.partly = append(r.partly, called)
		case covered == route.None:
			r.refused += calls
			r.closed = append(r.closed, called)
		}
	}
	for _, routes := range [][]routecount.Route{r.closed, r.partly} {
		slices.SortFunc(routes, func(a, b routecount.Route) int {
			return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a.Path+a.Method, b.Path+b.Method))
		})
	}
	return r
}

// named names routes.
func (r routed) named(routes []routecount.Route) string {
	words := ""
	for i, c := range routes[:min(len(routes), maxNamedRoutes)] {
		name := "not recorded by route"
		if c.Path != "" {
			name = c.Method + " " + page.Clip(c.Path, page.MaxName)
		}
		words += []string{": ", ", "}[min(i, 1)] + name + " (" + page.Number(r.by[c]) + ")"
	}
	if more := len(routes) - maxNamedRoutes; more > 0 {
		words += " and " + strconv.Itoa(more) + " more"
	}
	return words + "."
}

// ofPlan says how many of a plan's calls are refused.
func (r routed) ofPlan() string {
	if r.calls == 0 {
		return "No route was called with this plan in the last hour."
	}
	words := "In the last hour this would have refused " + page.Number(r.refused) + " of the plan's " +
		page.Number(r.calls) + " calls for their route" + r.named(r.closed)
	if r.unclear > 0 {
		words += " For " + page.Number(r.unclear) + " other calls it depends on the path" + r.named(r.partly)
	}
	return words
}

// ofKey says how many of a key's calls can be among those that are refused.
func (r routed) ofKey(calls int64) string {
	if calls == 0 {
		return "No calls in the last hour to compare."
	}
	total := max(r.calls, calls)
	least, most := max(0, calls-total+r.refused), min(calls, r.refused+r.unclear+total-r.calls)
	count := page.Number(least)
	if least != most {
		count = "between " + page.Number(least) + " and " + page.Number(most)
	}
	words := "In the last hour this would have refused " + count + " of the key's " + page.Number(calls) +
		" calls for their route. Routes are counted for each plan, not for each key: of all " +
		page.Number(total) + " calls of the plan it would have refused " + page.Number(r.refused) +
		r.named(r.closed)
	if r.unclear > 0 {
		words += " For " + page.Number(r.unclear) + " others it depends on the path" + r.named(r.partly)
	}
	return words
}

// previewAccess says what another list of a plan's open routes would have made of the
// last hour's calls. It is empty when the list stays.
func (c *Changes) previewAccess(ctx context.Context, set *policy.Set, p policy.Plan,
	now time.Time) (string, error) {
	old, _ := set.Numbered(p.Number)
	if slices.Equal(old.Allow, p.Allow) {
		return "", nil
	}
	by, err := c.usage.Routes(ctx, old.Name, now.Add(-PreviewSpan), now)
	if err != nil {
		return "", err
	}
	logged, again, err := c.refusedForRoute(ctx, denylog.Query{}, now)
	if err != nil {
		return "", err
	}
	ids := map[string]bool{}
	for _, d := range logged {
		ids[d.Subject] = true
	}
	keys, err := c.keys.Many(ctx, set, slices.Collect(maps.Keys(ids))) // the log does not have their plan
	if err != nil {
		return "", err
	}
	ofPlan := map[string]policy.Key{}
	for _, k := range keys {
		if k.Plan == old.Name {
			ofPlan[k.ID] = k
		}
	}
	for _, d := range logged {
		if k, found := ofPlan[d.Subject]; found {
			again.add(d, openedBy(k.Allow, old.Allow), openedBy(k.Allow, p.Allow))
		}
	}
	return openedBy(p.Allow).hold(by).ofPlan() + again.words(), nil
}

// PreviewKey says what an edit of a key would change, and what other open routes would
// have made of its calls of the last hour. Routes are counted by plan, so it says how
// many calls of the key can be among those that the plan's callers made.
func (c *Changes) PreviewKey(r *http.Request, set *policy.Set, before,
	after policy.Key) (*templates.Preview, error) {
	p := &templates.Preview{Changes: OfKey(set, before, after)}
	oldPlan, _ := set.Plan(before.Plan)
	newPlan, _ := set.Plan(after.Plan)
	if slices.Equal(before.Allow, after.Allow) && slices.Equal(oldPlan.Allow, newPlan.Allow) {
		return p, nil
	}
	now := time.Now()
	by, err := c.usage.Routes(r.Context(), before.Plan, now.Add(-PreviewSpan), now)
	if err != nil {
		return nil, err
	}
	points, err := c.usage.Series(r.Context(), before.ID, now.Add(-PreviewSpan).Truncate(routecount.Period),
		now, time.Minute)
	if err != nil {
		return nil, err
	}
	logged, again, err := c.refusedForRoute(r.Context(), denylog.Query{Subject: before.ID}, now)
	if err != nil {
		return nil, err
	}
	was, will := openedBy(before.Allow, oldPlan.Allow), openedBy(after.Allow, newPlan.Allow)
	for _, d := range logged {
		again.add(d, was, will)
	}
	p.Effects = []string{will.hold(by).ofKey(usage.Sum(points).Calls()) + again.words()}
	return p, nil
}

// refusedForRoute returns the refused calls of the last hour whose callers proved a key.
func (c *Changes) refusedForRoute(ctx context.Context, q denylog.Query,
	now time.Time) (logged []denylog.Entry, none reopened, err error) {
	q.Cause, q.From, q.To = cause.Access, now.Add(-PreviewSpan), now
	for d, err := range c.usage.EveryDenial(ctx, q) {
		if err != nil {
			return nil, none, err
		}
		if none.cut = len(logged) == maxRouted; none.cut {
			break
		}
		if d.Subject != "" {
			logged = append(logged, d)
		}
	}
	return logged, none, nil
}

// reopened is what lists would have made of calls that were refused for their route.
type reopened struct {
	calls, opens int64
	cut          bool // only the latest calls were looked at
}

// add counts a call. One that the lists opened already was refused for its spelling.
func (r *reopened) add(d denylog.Entry, was, will opened) {
	called := route.Call{API: d.API, Stage: d.Stage, Method: d.Method, Path: d.Path}
	r.calls += d.Calls
	if was.covers(called) < route.Every && will.covers(called) == route.Every {
		r.opens += d.Calls
	}
}

func (r *reopened) words() string {
	if r.calls == 0 {
		return ""
	}
	words := " Of " + page.Number(r.calls) + " calls refused for their route, this would open " +
		page.Number(r.opens) + "."
	if r.cut {
		words += " Only the latest " + page.Number(maxRouted) + " were looked at."
	}
	return words
}
