// Package bulk is the pages that change many keys at once.
package bulk

import (
	"log/slog"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/apikey"
)

// Pages answers the pages of bulk changes.
type Pages struct {
	*page.Renderer
	*changes.Changes
	Keys *app.Registry
	Log  *slog.Logger
	seal jobSeal
}

// New returns the pages; r renders them. Jobs are sealed with a key derived from the
// pepper.
func New(r *page.Renderer, shared *changes.Changes, keys *app.Registry, pepper apikey.Pepper,
	log *slog.Logger) *Pages {
	return &Pages{Renderer: r, Changes: shared, Keys: keys, Log: log, seal: newJobSeal(pepper)}
}

// Routes returns the pages.
func (d *Pages) Routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /keys/bulk", Role: auth.Editor, Handle: d.showBulk},
		{Pattern: "POST /keys/bulk", Role: auth.Editor, Handle: d.startBulk, Resumes: true},
		{Pattern: "GET /keys/job", Role: auth.Editor, Handle: d.showJob},
		{Pattern: "POST /keys/job", Role: auth.Editor, Handle: d.doJob},
	}
}
