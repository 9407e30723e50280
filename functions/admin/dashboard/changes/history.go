package changes

import (
	"net/http"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/audit"
	"tidegate/internal/registry"
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

// Edit is what the audit is told about a change that this request makes.
func (c *Changes) Edit(r *http.Request, reason string) registry.Edit {
	actor := auth.From(r.Context())
	return registry.Edit{By: audit.Actor{Kind: string(actor.Kind), Name: actor.String()}, Reason: reason}
}
