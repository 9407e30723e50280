package bulk

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// showJob shows how far the job is, and the button that goes on with it.
func (d *Pages) showJob(w http.ResponseWriter, r *http.Request) {
	j, set, ok := d.job(w, r, r.URL.Query())
	if !ok {
		return
	}
	if !d.seal.holds(d.Session.Token(r.Context()), j.values) {
		d.askToStart(w, r, http.StatusOK, set, j)
		return
	}
	p := templates.JobPage{
		Page: d.Page(r, "Job"), Heading: jobWords(j), Done: page.Number(j.done),
		Skipped:  page.Number(j.skipped),
		Of:       d.ofWords(j),
		Total:    strconv.FormatInt(max(j.total, 1), 10),
		Progress: strconv.FormatInt(j.done+j.skipped+int64(len(j.failed)), 10), Known: j.total > 0,
		Failed: j.failed, Finished: j.finished, Back: page.Address(d.Path("/keys"), changes.FilterValues(j.filter)),
	}
	if !j.finished {
		p.Form = &templates.Form{Action: d.Path("/keys/job"), Hidden: hiddenOf(j.values),
			Submit: "Continue", Auto: true,
			Cancel: templates.Choice{Text: "Stop here", Address: p.Back}}
	}
	d.Render(w, r, http.StatusOK, templates.Job(p))
}

// askToStart shows what a job would do that this session did not start, and does nothing.
func (d *Pages) askToStart(w http.ResponseWriter, r *http.Request, status int, set *policy.Set, j job) {
	if j.foreign = true; len(j.override.Limits.Rows) == 0 {
		j.override = newBulkOverride()
	}
	d.renderBulk(w, r, status, set, j)
}

// hiddenOf carries values on in a form.
func hiddenOf(values url.Values) []templates.Hidden {
	var hidden []templates.Hidden
	for name, all := range values {
		for _, v := range all {
			if name != "action" {
				hidden = append(hidden, templates.Hidden{Name: name, Value: v})
			}
		}
	}
	slices.SortFunc(hidden, func(x, y templates.Hidden) int {
		return strings.Compare(x.Name+"\x00"+x.Value, y.Name+"\x00"+y.Value)
	})
	return hidden
}

// doJob does the next part of the job.
func (d *Pages) doJob(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	j, set, ok := d.job(w, r, r.PostForm)
	if !ok {
		return
	}
	if !d.seal.holds(d.Session.Token(r.Context()), j.values) {
		d.askToStart(w, r, http.StatusForbidden, set, j)
		return
	}
	if j.check(set) > 0 || j.finished {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	d.step(w, r, set, j)
}

// maxFailed is how many keys that could not be changed are named.
const maxFailed = 10

// step changes keys until its time is up and says where the job stands.
func (d *Pages) step(w http.ResponseWriter, r *http.Request, set *policy.Set, j job) {
	edit := app.NewEdit(r.Context(), j.reason.Text)
	step, err := j.change().Step(r.Context(), d.Keys, set, j.selection(), edit)
	if err != nil {
		d.FailStore(w, r, "change keys", err)
		return
	}
	j.after, j.finished = step.Next, step.Next == ""
	j.done, j.skipped = j.done+step.Done, j.skipped+step.Skipped
	for _, f := range step.Failed {
		d.Log.Warn("bulk change", "key_id", f.ID, "cause", f.Cause)
		if len(j.failed) <= maxFailed {
			j.failed = append(j.failed, f.ID)
		}
	}
	http.Redirect(w, r, d.jobAddress(r.Context(), j), http.StatusSeeOther)
}

// selection says which keys the job means.
func (j *job) selection() app.Selection {
	if !j.all() {
		return app.Selection{IDs: j.ids}
	}
	return app.Selection{Filter: &j.filter, After: j.after}
}

// change is what the job does to a key.
func (j *job) change() app.KeyChange {
	c := app.KeyChange{Do: j.do, Plan: j.plan.Text}
	if j.do == app.Override {
		c.Override = j.override.Override(time.Now())
	}
	return c
}
