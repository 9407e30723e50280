// Package bulk is the pages that change many keys at once: the bar below the list of
// keys, the form that asks and previews, and the job that it starts.
package bulk

import (
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
)

// Pages answers the pages of bulk changes.
type Pages struct {
	*page.Renderer
	*changes.Changes
	Keys *app.Registry
}

// Routes returns the pages.
func (d *Pages) Routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /keys/bulk", Role: auth.Editor, Handle: d.showBulk},
		{Pattern: "POST /keys/bulk", Role: auth.Editor, Handle: d.startBulk, Resumes: true},
		{Pattern: "GET /jobs/{job}", Role: auth.Viewer, Handle: d.showJob},
		{Pattern: "POST /jobs/{job}", Role: auth.Editor, Handle: d.stepJob},
		{Pattern: "POST /jobs/{job}/stop", Role: auth.Editor, Handle: d.stopJob},
		{Pattern: "GET /jobs/{job}/undo", Role: auth.Editor, Handle: d.showUndo},
		{Pattern: "POST /jobs/{job}/undo", Role: auth.Editor, Handle: d.startUndo, Resumes: true},
	}
}
