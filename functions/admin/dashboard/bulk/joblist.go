package bulk

import (
	"net/http"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
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
			Reason: page.Clip(j.Reason, page.MaxName), State: StateText(j), Result: ResultText(j),
			Undone: undone[j.ID],
		}
		if page.CanEdit(r) && j.Undoable() && row.Undone == "" {
			row.Undo = row.Address + "/undo"
		}
		p.Rows = append(p.Rows, row)
	}
	return d.Render(w, r, http.StatusOK, templates.Jobs(p))
}

// StateText says how far a job is, such as "Stopped: 20 of 50".
func StateText(j app.Job) string {
	text := "Running"
	switch {
	case j.Over():
		return "Finished"
	case j.Stopped:
		text = "Stopped"
	}
	return text + ": " + page.Number(j.Processed()) + " of " + page.Number(j.Total)
}

// ResultText says what a job made of its keys, such as "48 changed, 2 unchanged".
func ResultText(j app.Job) string {
	text := page.Number(j.Done) + " changed, " + page.Number(j.Skipped) + " unchanged"
	if j.Failed > 0 {
		text += ", " + page.Number(j.Failed) + " failed"
	}
	return text
}
