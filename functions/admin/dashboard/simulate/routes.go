package simulate

import (
	"log/slog"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
)

// pages answers the pages that try limits out, without the store.
type pages struct {
	*page.Renderer
	log *slog.Logger
}

// Routes returns the pages; r renders them.
func Routes(r *page.Renderer, log *slog.Logger) []auth.Route {
	d := &pages{Renderer: r, log: log}
	return []auth.Route{
		{Pattern: "GET /simulate", Role: auth.Viewer, Handle: d.showSimulation},
		{Pattern: "GET /simulate/calls", Role: auth.Viewer, Handle: d.showCalls},
	}
}
