package limits

import (
	"slices"

	"tidegate/internal/route"
)

// Bounds of a Route.
const (
	MaxPatterns = 100 // patterns of one route
	MaxScopes   = 10  // scopes of one route
	MaxUnits    = 8   // units that one route names
	MaxFormer   = 8   // former names of one route
)

// Route names the calls that one of its patterns matches, and says what they cost. A call
// may fall under several routes.
type Route struct {
	// ID is what the counts of limits on the route are named by. A new route has its name
	// as ID. It stays when the route is renamed.
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	// Former has the names that it had before, the last one at the end, up to MaxFormer. No
	// route has them now. Overrides may still name the route by them.
	Former []string        `json:"former,omitempty"`
	Match  []route.Pattern `json:"match"` // 1 to MaxPatterns
	Cost   Costs           `json:"cost,omitzero"`
	Settle bool            `json:"settle,omitempty"` // a backend states the real cost after the call
	// Scopes are those of which a token must have one, up to MaxScopes; empty for any token.
	Scopes []string `json:"scopes,omitempty"`
}

// Router finds the routes that calls fall under. It is safe for concurrent use.
type Router struct {
	routes []Route
	index  *route.Index
	of     []place // where each pattern of the index stands
	on     []targetIndex
}

type place struct{ route, pattern int }

// targetIndex is a pattern that limits name in on or except.
type targetIndex struct {
	text  string
	index *route.Index
}

// NewRouter compiles routes, and the patterns that limits name themselves. It returns an
// error if a pattern is not valid.
func NewRouter(routes []Route, limits ...[]Limit) (*Router, error) {
	r := &Router{routes: routes}
	var patterns []route.Pattern
	for i, each := range routes {
		for j, p := range each.Match {
			patterns, r.of = append(patterns, p), append(r.of, place{i, j})
		}
	}
	var err error
	if r.index, err = route.NewIndex(patterns); err != nil {
		return nil, err
	}
	for _, list := range limits {
		for _, l := range list {
			for _, text := range append([]string{l.On}, l.Except...) {
				if err := r.addTarget(text); err != nil {
					return nil, err
				}
			}
		}
	}
	return r, nil
}

func (r *Router) addTarget(text string) error {
	t, problem := parseTarget(text)
	if text == "" || problem != "" || t.name != "" ||
		slices.ContainsFunc(r.on, func(x targetIndex) bool { return x.text == text }) {
		return nil
	}
	index, err := route.NewIndex([]route.Pattern{t.pattern})
	r.on = append(r.on, targetIndex{text, index})
	return err
}

// Call is what the routes say of a call.
type Call struct {
	Routes []Matched // that it falls under, the most specific first
	// Route is the one that a backend is told: the one that says the cost, or else the most
	// specific; empty for none.
	Route string

	// Given has costs that whoever makes the call knows, in place of the routes'. Settled says
	// that they are settled, whatever the routes say.
	Given   Costs
	Settled bool

	router *Router
	on     []route.Matched // by the router's own patterns; Index is -1 where none matches
}

// Matched is a route that a call falls under.
type Matched struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Pattern string   `json:"pattern" doc:"The most specific of its patterns that match" example:"GET /orders/{id}"` // as PatternText
	Names   []string `json:"-"`                                                                                     // its parameters
	Values  []string `json:"-"`                                                                                     // of the parameters
	route   *Route
}

// Find returns the routes that a call falls under. Its only error is route.ErrAmbiguous,
// for a call that must be refused.
func (r *Router) Find(c route.Call) (Call, error) {
	found, err := r.index.Find(c)
	if err != nil {
		return Call{}, err
	}
	call := Call{router: r}
	for _, m := range found {
		at := r.of[m.Index]
		of := &r.routes[at.route]
		if slices.ContainsFunc(call.Routes, func(x Matched) bool { return x.route == of }) {
			continue // a more specific pattern of the route matches
		}
		call.Routes = append(call.Routes, Matched{ID: of.ID, Name: of.Name,
			Pattern: PatternText(of.Match[at.pattern]), Names: of.Match[at.pattern].Names(),
			Values: m.Values, route: of})
	}
	for _, own := range r.on {
		found, err := own.index.Find(c)
		if err != nil {
			return Call{}, err
		}
		if len(found) == 0 {
			found = []route.Matched{{Index: -1}}
		}
		call.on = append(call.on, found[0])
	}
	call.Route = call.told()
	return call, nil
}

// told returns the route that a backend is told.
func (c *Call) told() string {
	if m, ok := c.stating(Cost); ok {
		return m.Name
	}
	for _, m := range c.Routes {
		if !m.route.costs().IsZero() {
			return m.Name
		}
	}
	if len(c.Routes) > 0 {
		return c.Routes[0].Name
	}
	return ""
}

// costs returns what the route says. A route that settles and names no cost estimates 1.
func (r *Route) costs() Costs {
	if r.Settle && r.Cost.IsZero() {
		return Costs{Units: map[string]int64{Cost: 1}}
	}
	return r.Cost
}

// stating returns the most specific route that names a unit.
func (c *Call) stating(unit string) (Matched, bool) {
	for _, m := range c.Routes {
		if _, ok := m.route.costs().Of(unit); ok {
			return m, true
		}
	}
	return Matched{}, false
}

// Cost returns what the call costs in a unit, and whether a backend settles it. has is
// false for a unit that the call does not have, of which it takes nothing.
func (c *Call) Cost(unit string) (cost int64, settles, has bool) {
	if unit == Calls {
		return 1, false, true
	}
	m, stated := c.stating(unit)
	settles = c.Settled || stated && m.route.Settle
	if cost, given := c.Given.Of(unit); given {
		return cost, settles, true
	}
	if stated {
		cost, _ := m.route.costs().Of(unit)
		return cost, settles, true
	}
	return 1, settles, unit == Cost
}

// Scopes returns those of the most specific route that names some: a token must have one.
func (c *Call) Scopes() []string {
	for _, m := range c.Routes {
		if len(m.route.Scopes) > 0 {
			return m.route.Scopes
		}
	}
	return nil
}

// CostFrom returns the name of the route that says what the call costs; empty for the
// default of 1.
func (c *Call) CostFrom() string {
	m, _ := c.stating(Cost)
	return m.Name
}

// Settles reports whether a backend settles the call: whether one of the routes that say
// what it costs does.
func (c *Call) Settles() bool {
	if c.Settled {
		return true
	}
	for _, m := range c.Routes {
		if !m.route.Settle {
			continue
		}
		for _, unit := range m.route.costs().names() {
			if by, _ := c.stating(unit); by.route == m.route {
				return true
			}
		}
	}
	return false
}

// under returns the route or the pattern that on or except names, if the call falls under
// it.
func (c *Call) under(text string) (Matched, bool) {
	for _, m := range c.Routes {
		if m.Name == text {
			return m, true
		}
	}
	for i, own := range c.router.on {
		if own.text == text && c.on[i].Index >= 0 {
			t, _ := parseTarget(text)
			return Matched{Pattern: text, Names: t.pattern.Names(), Values: c.on[i].Values}, true
		}
	}
	return Matched{}, false
}

// Value returns the value of a parameter; ok is false if the pattern does not have it.
func (m Matched) Value(name string) (value string, ok bool) {
	if i := slices.Index(m.Names, name); i >= 0 && i < len(m.Values) {
		return m.Values[i], true
	}
	return "", false
}
