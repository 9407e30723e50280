package command

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// RouteBody is a route with the reason of its change.
type RouteBody struct {
	policydoc.Route
	Why
}

// policyRoute returns the route. Bad input is a *policy.InvalidError.
func (b *RouteBody) policyRoute() (limits.Route, error) {
	r := limits.Route{Name: strings.TrimSpace(b.Name), Match: policydoc.ToPatterns(b.Match), Settle: b.Settle,
		Scopes: b.Scopes}
	if b.Cost == nil {
		return r, nil
	}
	var fields []policy.FieldError
	r.Cost, fields = b.Cost.Read("cost")
	return r, policy.Invalid(fields)
}

// CreateRoute creates a route.
type CreateRoute struct {
	OnPolicy
	Body RouteBody
}

func (c *CreateRoute) apply(next *policy.Set) error {
	r, err := c.Body.policyRoute()
	next.Routes = append(next.Routes, r)
	return err
}

func (c *CreateRoute) part() string { return fmt.Sprintf("routes[%d].", len(c.set.Routes)) }
func (c *CreateRoute) done() string {
	return "Saved the route " + page.Clip(c.Body.Name, page.MaxName) + "."
}

// OnRoute is the target of a change of one route, whose name may have a slash.
type OnRoute struct {
	OnPolicy
	Of string `query:"route" required:"true" maxLength:"400" doc:"Name of the route"`
}

func (c *OnRoute) query() url.Values { return url.Values{"route": {c.Of}} }

func (c *OnRoute) ready() error {
	if _, found := c.set.Route(c.Of); !found {
		return notFound("Route")
	}
	return nil
}

func (c *OnRoute) subject() Subject {
	of := c.OnPolicy.subject()
	of.Name = c.Of
	return of
}

// EditRoute replaces a route. Limits that name it follow its new name.
type EditRoute struct {
	OnRoute
	Body RouteBody
}

func (c *EditRoute) fill(context.Context, *Services) error {
	c.Body.Route = policydoc.PolicyOf(c.set).Routes[routeIndex(c.set, c.Of)]
	return nil
}

func (c *EditRoute) apply(next *policy.Set) error {
	i := routeIndex(next, c.Of)
	if i < 0 {
		return policy.ErrNotFound
	}
	r, err := c.Body.policyRoute()
	r.ID = next.Routes[i].ID
	next.Routes[i] = r
	renameRoute(next, c.Of, r.Name)
	return err
}

func (c *EditRoute) part() string { return fmt.Sprintf("routes[%d].", routeIndex(c.set, c.Of)) }
func (c *EditRoute) done() string {
	return "Saved the route " + page.Clip(c.Body.Name, page.MaxName) + "."
}

func routeIndex(set *policy.Set, name string) int {
	return slices.IndexFunc(set.Routes, func(r limits.Route) bool { return r.Name == name })
}

// renameRoute changes the name of a route in the limits of plans and of all callers. It
// copies them, since the saved set shares them. Overrides follow by themselves.
func renameRoute(s *policy.Set, from, to string) {
	if from == to {
		return
	}
	rename := func(list []limits.Limit) []limits.Limit {
		list = slices.Clone(list)
		for i := range list {
			l := &list[i]
			if l.On == from {
				l.On = to
			}
			if at := slices.Index(l.Except, from); at >= 0 {
				l.Except = slices.Clone(l.Except)
				l.Except[at] = to
				slices.Sort(l.Except)
			}
		}
		return list
	}
	for i := range s.Plans {
		s.Plans[i].Limits = rename(s.Plans[i].Limits)
	}
	s.Limits = rename(s.Limits)
}

// DeleteRoute deletes a route that no limit names.
type DeleteRoute struct {
	OnRoute
	RequiredQuery
}

func (c *DeleteRoute) lead(context.Context, *Services) ([]string, error) {
	r, _ := c.set.Route(c.Of)
	return []string{policydoc.RouteText(r) + "."}, nil
}

func (c *DeleteRoute) apply(next *policy.Set) error {
	i := routeIndex(next, c.Of)
	if i < 0 {
		return policy.ErrNotFound
	}
	next.Routes = slices.Delete(next.Routes, i, i+1)
	return nil
}

func (*DeleteRoute) part() string { return "routes." }
func (*DeleteRoute) done() string { return "Route deleted." }
