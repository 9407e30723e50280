// Package bulk serves the pages that change many keys at once: the bar below the list of
// keys, the form with its preview, and the page that makes the change step by step.
// Package dashboard mounts it and shows the bar. Package app does the changes.
package bulk

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// Pages serves the pages of bulk changes.
type Pages struct {
	*page.Renderer
	*changes.Changes
	Keys *app.Registry
}

// Routes returns the pages.
func (d *Pages) Routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /keys/bulk", Role: auth.Editor, Handle: d.showBulk, Deadline: auth.Long},
		{Pattern: "POST /keys/bulk", Role: auth.Editor, Handle: d.start, Resumes: true,
			Deadline: auth.Long},
	}
}

// actions are the bulk changes in words. The bar has buttons for the first buttons of them
// and a list of the others.
var actions = []templates.Option{
	{Value: app.Plan, Text: "Change plan"},
	{Value: app.Override, Text: "Override limits"},
	{Value: app.Ban, Text: "Ban"},
	{Value: app.Revoke, Text: "Revoke"},
	{Value: app.AddTags, Text: "Add tags"},
	{Value: app.RemoveTags, Text: "Remove tags"},
	{Value: app.SetGroup, Text: "Change group"},
	{Value: app.SetExpiry, Text: "Change expiry"},
	{Value: app.EndOverride, Text: "End overrides"},
	{Value: app.Unban, Text: "Unban"},
	{Value: app.Reset, Text: "Reset counts"},
}

const buttons = 4

const (
	selectField = "select" // query parameter of the list: ofPage, ofAll or ids tick rows
	ofField     = "of"     // form field of the bar: ofSelected or ofAll
	ofSelected  = "selected"
	ofPage      = "page"
	ofAll       = "all"
)

// Bar returns the form below the list of keys; nil for viewers and an empty list. It
// ticks the rows of p that the address selects.
func (d *Pages) Bar(r *http.Request, f app.KeyFilter, p templates.KeysPage) *templates.Bulk {
	if !page.CanEdit(r) || len(p.Rows) == 0 {
		return nil
	}
	b := &templates.Bulk{
		Action: d.Path("/keys/bulk"), Actions: actions[:buttons], Others: actions[buttons:],
		Of:   ofSelected,
		Page: page.Number(int64(len(p.Rows))), More: p.First != "" || p.Next != "",
	}
	here := r.URL.Query()
	carried := placeOf(here)
	maps.Copy(carried, changes.FilterValues(f))
	b.Hidden = hiddenOf(carried)
	if b.More {
		b.All = p.Matching
	}
	chosen := here.Get(selectField)
	for to, value := range map[*string]string{&b.SelectPage: ofPage, &b.SelectAll: ofAll, &b.Clear: ""} {
		here.Set(selectField, value)
		*to = page.Address(d.Path("/keys"), here)
	}
	if b.Ticked = chosen == ofPage || chosen == ofAll; chosen == ofAll {
		b.Of = ofAll
	}
	for i, row := range p.Rows {
		p.Rows[i].Ticked = b.Ticked || slices.Contains(strings.Split(chosen, ","), row.ID)
	}
	return b
}

// showBulk shows the form of a change.
func (d *Pages) showBulk(w http.ResponseWriter, r *http.Request) error {
	f, set, err := d.form(r, r.URL.Query())
	if err != nil {
		return err
	}
	f.override = changes.NewOverrideForm(0, nil, nil)
	return d.renderForm(w, r, http.StatusOK, set, f)
}

// form reads the form, the policy set and the number of matching keys.
func (d *Pages) form(r *http.Request, values url.Values) (bulkForm, *policy.Set, error) {
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		return bulkForm{}, nil, page.Failed("read policy", err)
	}
	f, err := readForm(set, values)
	if err != nil {
		return f, nil, page.Problem{Status: http.StatusBadRequest}
	}
	if !f.all && len(f.ids) == 0 {
		return f, nil, page.Problem{
			Status: http.StatusUnprocessableEntity, Heading: "No keys selected",
			Advice: "Select keys in the list, or choose all that match.",
		}
	}
	b := f.bulk()
	if f.total, err = d.Keys.CountMatching(r.Context(), set, b.IDs, b.Filter); err != nil {
		return f, nil, countProblem(err)
	}
	return f, set, nil
}

// start makes the first step, or shows the form again with its errors or a review.
func (d *Pages) start(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	if state := r.PostForm.Get(stateField); state != "" {
		return d.next(w, r, state)
	}
	f, set, err := d.form(r, r.PostForm)
	if err != nil {
		return err
	}
	button := r.PostForm.Get("action")
	if form.Resumes(r) {
		return d.renderForm(w, r, http.StatusOK, set, f)
	}
	f.check(set)
	if button == changes.PreviewButton { // needs no reason
		f.reason.AllowEmpty()
		f.override.Reason.AllowEmpty()
	}
	f.asked = button == changes.PreviewButton || f.review.shown != ""
	switch {
	case f.errorCount() > 0:
		return d.renderForm(w, r, http.StatusUnprocessableEntity, set, f)
	case button == changes.PreviewButton:
		if f.do == app.Override {
			f.warnings = app.OverrideWarnings(set, f.bulk().Override.Limits)
		}
		return d.renderForm(w, r, http.StatusOK, set, f)
	case !f.checkTotal():
		return d.renderForm(w, r, http.StatusConflict, set, f)
	}
	reviewed, err := d.checkReview(r, set, &f)
	switch {
	case err != nil:
		return err
	case !reviewed:
		return d.renderForm(w, r, http.StatusConflict, set, f)
	case !f.checkConfirm():
		return d.renderForm(w, r, http.StatusUnprocessableEntity, set, f)
	default:
		return d.begin(w, r, set, f)
	}
}

// begin makes the first step of the change.
func (d *Pages) begin(w http.ResponseWriter, r *http.Request, set *policy.Set, f bulkForm) error {
	p := progress{Bulk: f.bulk().Numbered(set), Reason: f.reason.Text, Back: d.listPath(&f, false)}
	if f.do == app.Override {
		p.Reason = f.override.Reason.Text
	}
	p.Bulk.Accepts = form.Accepts(r.PostForm)
	err := d.Keys.CheckBulk(r.Context(), set, p.Bulk)
	var invalid *policy.InvalidError
	var unconfirmed *app.UnconfirmedError
	switch {
	case errors.As(err, &unconfirmed):
		f.warnings = unconfirmed.Warnings
		return d.renderForm(w, r, http.StatusUnprocessableEntity, set, f)
	case errors.As(err, &invalid):
		f.setError(invalid)
		return d.renderForm(w, r, http.StatusUnprocessableEntity, set, f)
	case err != nil:
		return page.Failed("check change", err)
	default:
		return d.step(w, r, p)
	}
}

// countProblem returns the answer to an error of counting keys.
func countProblem(err error) error {
	if errors.Is(err, app.ErrUncounted) {
		return page.Problem{
			Status: http.StatusUnprocessableEntity, Heading: "Too many keys to count",
			Advice: "Narrow the filter, for example by the start of the name.",
		}
	}
	return page.Failed("count keys", err)
}
