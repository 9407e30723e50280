// Package denials is the pages of the denial log, and what other pages say of it: the
// latest denials of a key or caller, and refused credentials by cause.
package denials

import (
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/usage"
)

// Pages answers the pages of the denial log.
type Pages struct {
	*page.Renderer
	keys  *app.Registry
	usage *usage.Reader
}

// New returns the pages; r renders them.
func New(r *page.Renderer, keys *app.Registry, calls *usage.Reader) *Pages {
	return &Pages{Renderer: r, keys: keys, usage: calls}
}

// Routes are the pages.
func (d *Pages) Routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /denials", Role: auth.Viewer, Handle: d.showDenials},
		{Pattern: "GET /denials.csv", Role: auth.Viewer, Handle: d.exportDenials},
	}
}
