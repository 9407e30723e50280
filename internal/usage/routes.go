package usage

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/lua"
	"tidegate/internal/usage/routecount"
)

// Bounds of the routes that a Recorder distinguishes. Further calls count under their
// plan.
const (
	MaxRoutes     = 256 // that wait for a flush
	maxOtherPlans = 64
)

// routesPause is the time between Batches with routes in the long run. After a pause,
// maxEarly Batches in succession carry routes.
const routesPause = 10 * time.Second

// Routes returns the calls of a plan by route, as routecount.Read does. from is at most
// an hour before to. A busy environment reports its latest calls within 10 s.
func (r *Reader) Routes(
	ctx context.Context, plan string, from, to time.Time,
) (map[routecount.Route]int64, error) {
	if to.Sub(from) > time.Hour {
		return nil, fmt.Errorf("%w: %s is more than the hour that routes are kept for", ErrSpan, to.Sub(from))
	}
	return routecount.Read(ctx, r.client, plan, from, to)
}

// countRoute counts a call under its route.
func (p *pending) countRoute(o Outcome) {
	if r := o.Route; r.Plan != "" && len(r.Plan) <= routecount.MaxPlan {
		slot := routecount.Slot{Route: r, Period: routecount.PeriodOf(o.Time)}
		p.addRoute(routecount.Count{Slot: slot, Calls: 1})
	}
}

// addRoute adds calls to their route. Without room for the route it adds them to their
// plan, and without room for that it drops them.
func (p *pending) addRoute(c routecount.Count) {
	i, known := p.routeIndex[c.Slot]
	if !known && len(p.routes) >= MaxRoutes {
		c.Route = routecount.Route{Plan: c.Plan}
		i, known = p.routeIndex[c.Slot]
	}
	switch {
	case known:
		p.routes[i].Calls += c.Calls
		return
	case len(p.routes) >= MaxRoutes+maxOtherPlans:
		return
	case p.routeIndex == nil:
		p.routeIndex = map[routecount.Slot]int{}
	}
	p.routeIndex[c.Slot] = len(p.routes)
	p.routes = append(p.routes, c)
}

// takeRoutesTurn reports whether the Batch of now carries routes, and counts it if so.
func (r *Recorder) takeRoutesTurn(now int64) bool {
	if r.routesTAT-now > (maxEarly-1)*int64(routesPause) {
		return false
	}
	r.routesTAT = max(r.routesTAT, now) + int64(routesPause)
	return true
}

// routes is the payload of calls by route.
type routes []routecount.Count

// packRoutes sorts routes into parcels, one for each period.
func packRoutes(waiting []routecount.Count) []parcel {
	slices.SortStableFunc(waiting, func(a, b routecount.Count) int { return cmp.Compare(a.Period, b.Period) })
	return parcelsOf(waiting, math.MaxInt,
		func(c *routecount.Count) place { return place{routecount.Bucket(c.Period), c.Period} },
		func(_ place, run []routecount.Count) payload { return routes(run) })
}

func (routes) script() *lua.Script { return routecount.Script }

func (rs routes) arguments(_ *Batch, at place) (keys, args []string) {
	return []string{routecount.Name(at.period)}, routecount.Args(rs)
}

func (rs routes) acknowledge(r *Recorder, _ place, result valkey.ValkeyResult, report *Report) {
	err := result.Error()
	if notExecuted(err) {
		for _, c := range rs {
			r.pending.addRoute(c)
		}
	}
	report.note(err)
}
