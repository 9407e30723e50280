package usage

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/lua"
	"tidegate/internal/store/keyspace"
)

// Route is what calls of a plan have in common: whom they call, never with which path. A
// Route that has its plan alone stands for routes beyond a bound.
type Route struct {
	Plan               string
	API, Stage, Method string
	Path               string // pattern of the route; * for a path that has no pattern
}

// RoutePeriod is how finely calls by route are kept apart in time.
const RoutePeriod = 5 * time.Minute

// Bounds of the routes that are distinguished. Calls beyond them count under their plan.
const (
	MaxRoutes = 256 // that wait in a Recorder
	// MaxStoredRoutes is how many routes of all plans are stored for a period.
	MaxStoredRoutes = 4096
	maxOtherPlans   = 64
	maxRouteText    = 200 // bytes of a text but the plan's
	maxPlanText     = 1000
)

// routesPause is how often routes leave in the long run. After a pause they leave with as
// many Batches as leave early.
const routesPause = 10 * time.Second

// routeSlot is a route in a period.
type routeSlot struct {
	Route
	period int64 // since 1970
}

type routeCount struct {
	routeSlot
	calls int64
}

// route counts a call under its route.
func (p *pending) route(o Outcome) {
	if r := o.Route; r.Plan != "" && len(r.Plan) <= maxPlanText {
		p.addRoute(routeCount{routeSlot{r, max(o.Time.Unix(), 0) / int64(RoutePeriod/time.Second)}, 1})
	}
}

// addRoute adds calls to their route, to their plan where the route is one too many, or
// to none.
func (p *pending) addRoute(c routeCount) {
	i, known := p.routeIndex[c.routeSlot]
	if !known && len(p.routes) >= MaxRoutes {
		c.Route = Route{Plan: c.Plan}
		i, known = p.routeIndex[c.routeSlot]
	}
	switch {
	case known:
		p.routes[i].calls += c.calls
		return
	case len(p.routes) >= MaxRoutes+maxOtherPlans:
		return
	case p.routeIndex == nil:
		p.routeIndex = map[routeSlot]int{}
	}
	p.routeIndex[c.routeSlot] = len(p.routes)
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
func packRoutes(routes []routeCount) []parcel {
	slices.SortStableFunc(routes, func(a, b routeCount) int { return cmp.Compare(a.period, b.period) })
	var parcels []parcel
	for _, c := range routes {
		last := len(parcels) - 1
		if last < 0 || parcels[last].routes[0].period != c.period {
			parcels, last = append(parcels, parcel{bucket: routesBucket(c.period)}), last+1
		}
		parcels[last].routes = append(parcels[last].routes, c)
	}
	return parcels
}

func routesBucket(period int64) keyspace.Bucket { return totalBucket(int(period % totalBuckets)) }

func routesName(period int64) string {
	return routesBucket(period).Name("usage-r" + strconv.FormatInt(period, 10))
}

// routeArgs writes the routes as routes.lua reads them.
func (p *parcel) routeArgs() []string {
	args := append(make([]string, 0, 1+2*len(p.routes)), strconv.Itoa(MaxStoredRoutes))
	for _, c := range p.routes {
		args = append(args, c.field(), strconv.FormatInt(c.calls, 10))
	}
	return args
}

// field is the field of the hash: the plan behind 2 bytes of length, then API, stage,
// method and path, each behind one. A path that is too long tells nothing.
func (r Route) field() string {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(r.Plan)))
	b = append(b, r.Plan...)
	if r == (Route{Plan: r.Plan}) || max(len(r.API), len(r.Stage), len(r.Method)) > maxRouteText {
		return string(b)
	}
	path := r.Path
	if len(path) > maxRouteText {
		path = "*"
	}
	for _, text := range []string{r.API, r.Stage, r.Method, path} {
		b = append(append(b, byte(len(text))), text...)
	}
	return string(b)
}

// parseRoute reads a field. Of one of another form only the plan counts.
func parseRoute(field string) (Route, bool) {
	if len(field) < 2 {
		return Route{}, false
	}
	plan := int(binary.BigEndian.Uint16([]byte(field[:2])))
	if field = field[2:]; len(field) < plan {
		return Route{}, false
	}
	only := Route{Plan: field[:plan]}
	r, field := only, field[plan:]
	for _, text := range []*string{&r.API, &r.Stage, &r.Method, &r.Path} {
		if field == "" || len(field) < 1+int(field[0]) {
			return only, true
		}
		*text, field = field[1:1+field[0]], field[1+field[0]:]
	}
	return r, true
}

// acknowledgeRoutes is acknowledge of routes.
func (r *Recorder) acknowledgeRoutes(p *parcel, result valkey.ValkeyResult, report *Report) {
	err := result.Error()
	unknown := lua.Unknown(err)
	r.withoutRoutesScript[p.bucket] = unknown
	if unknown || notExecuted(err) {
		for _, c := range p.routes {
			r.pending.addRoute(c)
		}
	}
	if err != nil && !unknown {
		report.note(err)
	}
}

// Routes returns the calls of a plan by route, allowed and denied, from the beginning of
// the period that from is in to the end of the one before to, or that to is in. from is at
// most an hour before to. An environment that is called all the time reports its latest
// calls within 10 s.
func (r *Reader) Routes(ctx context.Context, plan string, from, to time.Time) (map[Route]int64, error) {
	if to.Sub(from) > time.Hour {
		return nil, fmt.Errorf("%w: %s is more than the hour that routes are kept for", ErrSpan, to.Sub(from))
	}
	seconds := int64(RoutePeriod / time.Second)
	var commands valkey.Commands
	for period := from.Unix() / seconds; period <= to.Add(-1).Unix()/seconds; period++ {
		commands = append(commands, r.client.B().Hgetall().Key(routesName(period)).Build())
	}
	routes := map[Route]int64{}
	for _, result := range r.client.DoMulti(ctx, commands...) {
		counts, err := result.AsIntMap()
		if err != nil {
			return nil, fmt.Errorf("usage: routes: %w", err)
		}
		for field, calls := range counts {
			if route, ok := parseRoute(field); ok && route.Plan == plan {
				routes[route] += calls
			}
		}
	}
	return routes, nil
}
