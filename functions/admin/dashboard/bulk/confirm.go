package bulk

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

var bulkActions = []templates.Option{
	{Value: app.Plan, Text: "change plan"},
	{Value: app.Override, Text: "override limits"},
	{Value: app.End, Text: "end overrides"},
	{Value: app.Reset, Text: "reset counts"},
	{Value: app.Revoke, Text: "revoke"},
}

// Bar is the form below the list of keys.
func (d *Pages) Bar(r *http.Request, f app.KeyFilter, p templates.KeysPage) (*templates.Bulk, error) {
	if !page.CanEdit(r) || len(p.Rows) == 0 {
		return nil, nil
	}
	b := &templates.Bulk{Action: d.Path("/keys/bulk"), Actions: bulkActions, All: "All that match"}
	for name, v := range changes.FilterValues(f) {
		if v[0] != "" {
			b.Hidden = append(b.Hidden, templates.Hidden{Name: name, Value: v[0]})
		}
	}
	slices.SortFunc(b.Hidden, func(x, y templates.Hidden) int { return strings.Compare(x.Name, y.Name) })
	if f.Computed() {
		return b, nil
	}
	n, err := d.Keys.Count(r.Context(), f)
	b.All = "All " + page.Number(n) + " that match"
	return b, err
}

// showBulk asks what the change needs to know.
func (d *Pages) showBulk(w http.ResponseWriter, r *http.Request) {
	j, set, ok := d.job(w, r, r.URL.Query())
	if !ok {
		return
	}
	j.override = newBulkOverride()
	d.renderBulk(w, r, http.StatusOK, set, j)
}

func newBulkOverride() changes.OverrideForm {
	return changes.NewOverrideForm(policy.Key{}, policy.Effective{Mode: policy.Enforce})
}

// job reads a job and the Set, or answers the request.
func (d *Pages) job(w http.ResponseWriter, r *http.Request, values url.Values) (job, *policy.Set, bool) {
	j, err := readJob(values)
	if err != nil || !form.IsOption(bulkActions, j.do) {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return job{}, nil, false
	}
	if !j.all() && len(j.ids) == 0 {
		d.Fail(w, r, page.Problem{
			Status: http.StatusUnprocessableEntity, Heading: "No keys selected",
			Advice: "Select keys in the list, or choose all that match.",
		})
		return job{}, nil, false
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return job{}, nil, false
	}
	return j, set, true
}

// startBulk begins the job, or shows what is wrong with it.
func (d *Pages) startBulk(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	j, set, ok := d.job(w, r, r.PostForm)
	if !ok {
		return
	}
	if j.override.Limits.Change(r.PostForm.Get("action")) || form.Resumes(r) {
		d.renderBulk(w, r, http.StatusOK, set, j)
		return
	}
	var err error
	if j.total, err = d.countJob(r.Context(), j); err != nil {
		d.FailStore(w, r, "count keys", err)
		return
	}
	j.checkConfirm()
	if j.check(set)+form.CountErrors(j.confirm) > 0 {
		d.renderBulk(w, r, http.StatusUnprocessableEntity, set, j)
		return
	}
	if !j.all() {
		d.step(w, r, set, j)
		return
	}
	http.Redirect(w, r, d.jobAddress(r.Context(), j), http.StatusSeeOther)
}

// countJob returns how many keys are meant; 0 when that is not known before they are
// looked at.
func (d *Pages) countJob(ctx context.Context, j job) (int64, error) {
	switch {
	case !j.all():
		return int64(len(j.ids)), nil
	case j.filter.Computed():
		return 0, nil
	}
	return d.Keys.Count(ctx, j.filter)
}

// jobAddress is where a job of this session stands.
func (d *Pages) jobAddress(ctx context.Context, j job) string {
	v := url.Values{}
	for name, values := range j.values {
		if name != "action" && name != "confirm" {
			v[name] = values
		}
	}
	v.Set("after-key", j.after)
	v.Set("done", strconv.FormatInt(j.done, 10))
	v.Set("skipped", strconv.FormatInt(j.skipped, 10))
	v.Set("total", strconv.FormatInt(j.total, 10))
	v["failed"] = j.failed
	if j.finished {
		v.Set("finished", "yes")
	}
	v.Set(sealField, d.seal.of(d.Session.Token(ctx), v))
	return d.Path("/keys/job") + "?" + v.Encode()
}

func jobWords(j job) string {
	switch j.do {
	case app.Plan:
		return "Change plan to " + page.Clip(j.plan.Text, page.MaxName)
	case app.Override:
		return "Override the limits"
	case app.End:
		return "End overrides"
	case app.Reset:
		return "Reset the counts"
	}
	return "Revoke"
}

// ofWords says which keys are meant.
func (d *Pages) ofWords(j job) string {
	if !j.all() {
		if len(j.ids) == 1 {
			return "1 selected key"
		}
		return page.Number(int64(len(j.ids))) + " selected keys"
	}
	words := "all keys"
	if j.filter.Prefix != "" {
		match := " whose name starts with “"
		if j.filter.Anywhere {
			match = " whose name contains “"
		}
		words += match + page.Clip(j.filter.Prefix, changes.MaxSearch) + "”"
	}
	if j.filter.Plan > 0 {
		words += " of the chosen plan"
	}
	if j.filter.Tag != "" {
		words += " tagged “" + page.Clip(j.filter.Tag, policy.MaxTagLen) + "”"
	}
	for _, o := range changes.KeyStates {
		if o.Value == string(j.filter.State) && o.Value != "" {
			words += " that are " + o.Text
		}
	}
	if j.total > 0 {
		words += " (" + page.Number(j.total) + ")"
	}
	return words
}

func (d *Pages) renderBulk(w http.ResponseWriter, r *http.Request, status int, set *policy.Set, j job) {
	var err error
	if j.total, err = d.countJob(r.Context(), j); err != nil { // not what the address says
		d.FailStore(w, r, "count keys", err)
		return
	}
	view := templates.FormPage{
		Page: d.Page(r, jobWords(j)),
		Trail: []templates.Choice{{Text: "Keys",
			Address: page.Address(d.Path("/keys"), changes.FilterValues(j.filter))}},
		Heading: jobWords(j),
		Lead: []string{"Of " + d.ofWords(j) +
			". Revoked and unchanged keys are skipped. Every change is in the audit."},
	}
	if names := d.selectedNames(r, set, j); names != "" {
		view.Lead = append(view.Lead, names)
	}
	f := j.override.View()
	if j.do != app.Override {
		f = templates.Form{
			After:  []templates.FormField{form.ReasonField(j.reason)},
			Errors: form.CountErrors(j.plan, j.reason),
		}
		if j.do == app.Plan {
			f.Fields = []templates.FormField{form.ChoiceField("to", "Plan", changes.PlanOptions(set), j.plan)}
		}
		if word := j.confirmWord(); word != "" {
			f.After = append(f.After,
				form.TextField("confirm", "Type "+word+" to confirm", "", 20, j.confirm))
			f.Errors += form.CountErrors(j.confirm)
		}
	}
	f.Preview, f.Submit, f.Action, f.Danger = false, "Change "+d.ofWords(j), d.Path("/keys/bulk"),
		j.do == app.Revoke || j.do == app.Reset
	f.Cancel = templates.Choice{Text: "Cancel",
		Address: page.Address(d.Path("/keys"), changes.FilterValues(j.filter))}
	if j.foreign {
		f.Error = foreignJob
	}
	carried := url.Values{"do": {j.do}, "of": {j.values.Get("of")}, "id": j.ids}
	for name, v := range changes.FilterValues(j.filter) {
		carried[name] = v
	}
	f.Hidden = hiddenOf(carried)
	view.Form = &f
	d.Render(w, r, status, templates.FormOf(view))
}

const foreignJob = "Nothing changed: this page was opened by a link or in another session. Confirm to " +
	"continue."

// selectedNames lists the keys that were ticked.
func (d *Pages) selectedNames(r *http.Request, set *policy.Set, j job) string {
	if j.all() {
		return ""
	}
	keys, err := d.Keys.Many(r.Context(), set, j.ids)
	if err != nil {
		return ""
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = page.Clip(k.Name, page.MaxName)
	}
	return page.Clip(strings.Join(names, ", "), 1000)
}
