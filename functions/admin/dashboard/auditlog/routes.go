// Package auditlog is the pages of the audit: the list of changes, what an entry reverts,
// and the check of the chains.
package auditlog

import (
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
)

// Pages answers the pages of the audit.
type Pages struct {
	*page.Renderer
	*changes.Changes
	keys *app.Registry
}

// New returns the pages; r renders them.
func New(r *page.Renderer, shared *changes.Changes, keys *app.Registry) *Pages {
	return &Pages{Renderer: r, Changes: shared, keys: keys}
}

// Routes are the pages.
func (d *Pages) Routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /audit", Role: auth.Viewer, Handle: d.showAudit},
		{Pattern: "GET /audit.csv", Role: auth.Viewer, Handle: d.exportAudit},
		{Pattern: "GET /audit/verify", Role: auth.Viewer, Handle: d.verifyAudit},
		{Pattern: "GET /audit/{entry}/revert", Role: auth.Editor, Handle: d.showRevert},
		{Pattern: "POST /audit/{entry}/revert", Role: auth.Editor, Handle: d.revert, Resumes: true},
		{Pattern: "POST /audit/{entry}/undo", Role: auth.Editor, Handle: d.undo},
	}
}
