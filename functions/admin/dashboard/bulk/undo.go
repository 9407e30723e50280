package bulk

import (
	"net/http"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/web/templates"
)

// showUndo says what taking a job back would do.
func (d *Pages) showUndo(w http.ResponseWriter, r *http.Request) {
	if j, ok := d.found(w, r); ok {
		d.renderUndo(w, r, http.StatusOK, j, form.Input{})
	}
}

func (d *Pages) renderUndo(w http.ResponseWriter, r *http.Request, status int, j app.Job, reason form.Input) {
	undo, err := d.Keys.UndoOf(r.Context(), j)
	if err != nil {
		d.failJob(w, r, err)
		return
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return
	}
	preview, err := d.Keys.PreviewUndo(r.Context(), set, j)
	if err != nil {
		d.FailStore(w, r, "preview undo", err)
		return
	}
	path := d.jobPath(j.ID)
	d.Render(w, r, status, templates.FormOf(templates.FormPage{
		Page:    d.Page(r, undo.Title()),
		Trail:   []templates.Choice{{Text: "Audit", Address: d.Path("/audit")}, {Text: "Job", Address: path}},
		Heading: undo.Title(),
		Lead: []string{
			"Takes back “" + page.Clip(j.Title(), page.MaxName) +
				"”. A key that was changed since is left as it is.",
		},
		Form: &templates.Form{
			Action: path + "/undo", Submit: undo.Title(),
			After:  []templates.FormField{form.ReasonField(reason)},
			Errors: form.CountErrors(reason), Effects: undoWords(preview),
			Cancel: templates.Choice{Text: "Cancel", Address: path},
		},
	}))
}

func undoWords(p app.UndoPreview) []string {
	all := []string{"Restored: " + keyCount(p.Back) + "."}
	if p.Changed > 0 {
		all = append(all, "Left, because changed since: "+keyCount(p.Changed)+".")
	}
	if p.Same > 0 {
		all = append(all, "Restored already: "+keyCount(p.Same)+".")
	}
	if !p.Whole {
		all = append(all, "Only the newest changes were looked at.")
	}
	return all
}

// startUndo begins the job that takes another back.
func (d *Pages) startUndo(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	j, ok := d.found(w, r)
	if !ok {
		return
	}
	reason := form.Typed(r.PostForm, "reason", form.MaxReasonInput)
	if form.Resumes(r) {
		d.renderUndo(w, r, http.StatusOK, j, reason)
		return
	}
	reason.CheckReason()
	if form.CountErrors(reason) > 0 {
		d.renderUndo(w, r, http.StatusUnprocessableEntity, j, reason)
		return
	}
	undo, err := d.Keys.UndoOf(r.Context(), j)
	if err == nil {
		undo, err = d.Keys.StartJob(r.Context(), nil, undo, app.NewEdit(r.Context(), reason.Text))
	}
	if err != nil {
		d.failJob(w, r, err)
		return
	}
	d.begin(w, r, undo)
}

func keyCount(n int64) string {
	if n == 1 {
		return "1 key"
	}
	return page.Number(n) + " keys"
}
