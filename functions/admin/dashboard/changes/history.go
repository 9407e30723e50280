package changes

import (
	"net/http"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/audit"
)

// UndoOf is the address that undoes the change that made this version of a subject; empty
// if there is none.
func (c *Changes) UndoOf(r *http.Request, subject string, version int64) string {
	page, err := c.keys.Audit().List(r.Context(), audit.Query{Subject: subject, Count: 5, Heads: true})
	if err != nil {
		return ""
	}
	for _, e := range page.Entries {
		if e.Version == version && app.Irreversible(e.Opened()) == "" {
			return c.renderer.Path("/audit/" + e.ID + "/undo")
		}
	}
	return ""
}

// LastActor names who made the newest change of a subject; empty if nobody knows.
func (c *Changes) LastActor(r *http.Request, subject string) string {
	view, err := c.keys.Audit().List(r.Context(), audit.Query{Subject: subject, Count: 1, Heads: true})
	if err != nil || len(view.Entries) == 0 {
		return ""
	}
	return page.Clip(view.Entries[0].By.Name, page.MaxName)
}
