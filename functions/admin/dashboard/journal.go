package dashboard

import (
	"net/http"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
)

// restoreLost restores what Valkey lost.
func (d *dashboard) restoreLost(w http.ResponseWriter, r *http.Request) {
	if d.Journal == nil {
		d.Fail(w, r, page.Problem{Status: http.StatusNotFound})
		return
	}
	s, err := app.RestoreLost(r.Context(), d.Journal, d.Keys, app.NewEdit(r.Context(), ""))
	switch {
	case err != nil:
		d.Log.Error("restore", "cause", err)
		d.Fail(w, r, page.Problem{
			Status: http.StatusServiceUnavailable, Heading: "Not everything was restored",
			Advice: "Try again. If it stays so, run scripts/restore.",
		})
		return
	case s.Left > 0:
		d.Flash(r, "Restored in part. Restore again: "+page.Number(int64(s.Left))+" parts are left.", "")
	default:
		d.Flash(r, "Restored. Counts start empty.", "")
	}
	http.Redirect(w, r, d.Path("/"), http.StatusSeeOther)
}
