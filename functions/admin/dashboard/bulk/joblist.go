package bulk

import (
	"net/http"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/audit"
	"tidegate/web/templates"
)

// showJobs lists the recent jobs, newest first.
func (d *Pages) showJobs(w http.ResponseWriter, r *http.Request) error {
	jobs, err := d.Keys.RecentJobs(r.Context())
	if err != nil {
		return page.Failed("list jobs", err)
	}
	p := templates.JobList{
		Page:  d.Page(r, "Jobs"),
		Audit: page.Address(d.Path("/audit"), map[string][]string{"what": {audit.JobStart}}),
	}
	undone := map[string]string{} // path of the undo by the id of its job
	for _, j := range jobs {
		if j.Undoes != "" {
			undone[j.Undoes] = d.jobPath(j.ID)
		}
	}
	for _, j := range jobs {
		row := templates.JobRow{
			Title: page.Clip(j.Title(), page.MaxName), Address: d.jobPath(j.ID),
			By: page.Clip(j.Actor().Name, page.MaxName), Started: page.Instant(j.Started),
			Reason: page.Clip(j.Reason, page.MaxName), State: wording.JobState(j),
			Result: wording.JobResult(j),
			Undone: undone[j.ID],
		}
		if page.CanEdit(r) && j.Undoable() && row.Undone == "" {
			row.Undo = row.Address + "/undo"
		}
		p.Rows = append(p.Rows, row)
	}
	return d.Render(w, r, http.StatusOK, templates.Jobs(p))
}
