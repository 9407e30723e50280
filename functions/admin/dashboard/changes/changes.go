package changes

import (
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/audit"
	"tidegate/internal/usage"
	"tidegate/web/templates"
)

// Changes is what the pages that change something share. It is safe for concurrent use.
type Changes struct {
	renderer *page.Renderer
	keys     *app.Registry
	usage    *usage.Reader
	cached   cache
}

// New reads the history and the recorded calls from the store.
func New(renderer *page.Renderer, keys *app.Registry, calls *usage.Reader) *Changes {
	return &Changes{renderer: renderer, keys: keys, usage: calls}
}

// ChangesOf returns the changes of an audit entry.
func (c *Changes) ChangesOf(e audit.Entry) []templates.Change { return c.cached.of(e) }
