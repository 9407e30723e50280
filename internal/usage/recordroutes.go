package usage

import (
	"cmp"
	"slices"
	"time"

	"tidegate/internal/usage/routecount"
)

// Bounds of the routes that are distinguished. Calls beyond them count under their plan.
const (
	MaxRoutes     = 256 // that wait in a Recorder
	maxOtherPlans = 64
)

// routesPause is how often routes leave in the long run. After a pause they leave with as
// many Batches as leave early.
const routesPause = 10 * time.Second

// route counts a call under its route.
func (p *pending) route(o Outcome) {
	if r := o.Route; r.Plan != "" && len(r.Plan) <= routecount.MaxPlan {
		slot := routecount.Slot{Route: r, Period: routecount.PeriodOf(o.Time)}
		p.addRoute(routecount.Count{Slot: slot, Calls: 1})
	}
}

// addRoute adds calls to their route, to their plan where the route is one too many, or
// to none.
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

// routesDue reports whether routes leave with a Batch, and counts them as sent.
func (r *Recorder) routesDue(now int64) bool {
	if r.routesUsed-now > (maxEarly-1)*int64(routesPause) {
		return false
	}
	r.routesUsed = max(r.routesUsed, now) + int64(routesPause)
	return true
}

// packRoutes sorts routes into parcels, one a period. All of a period are in one bucket,
// and further periods in others.
func packRoutes(routes []routecount.Count) []parcel {
	slices.SortStableFunc(routes, func(a, b routecount.Count) int { return cmp.Compare(a.Period, b.Period) })
	var parcels []parcel
	for _, c := range routes {
		last := len(parcels) - 1
		if last < 0 || parcels[last].routes[0].Period != c.Period {
			parcels, last = append(parcels, parcel{bucket: routecount.Bucket(c.Period)}), last+1
		}
		parcels[last].routes = append(parcels[last].routes, c)
	}
	return parcels
}

// acknowledgeRoutes is acknowledge of routes.
func (r *Recorder) acknowledgeRoutes(p *parcel, err error, report *Report) {
	if notExecuted(err) {
		for _, c := range p.routes {
			r.pending.addRoute(c)
		}
	}
	report.note(err)
}
