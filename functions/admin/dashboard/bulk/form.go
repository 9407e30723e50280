package bulk

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// maxSelected is the number of keys that can be ticked: those of one page.
const maxSelected = 100

// bulkForm is a change of many keys as the user requested it.
type bulkForm struct {
	do       string   // the change: a value of actions
	ids      []string // of the ticked keys; empty for all that filter matches
	filter   app.KeyFilter
	all      bool
	place    url.Values // order and page of the list that the keys were chosen in
	plan     form.Input // name of the plan
	tags     form.Input
	group    form.Input
	until    form.Until // end of a ban, or expiry
	override changes.OverrideForm
	reason   form.Input
	confirm  form.Input // number of keys, typed to confirm
	review   review
	asked    bool     // the user asked for the review
	shown    int64    // number of keys that the form displayed; -1 if it had none
	total    int64    // number of keys that match now
	problem  string   // an error that belongs to no field
	warnings []string // of the override, not confirmed
}

// table returns the fields but the expiry and those of an override.
func (f *bulkForm) table() form.Table {
	return form.Table{
		{Name: "to", Input: &f.plan, Max: page.MaxName + 10, Path: "plan"},
		{Name: "tags", Input: &f.tags, Max: form.MaxTagsInput},
		{Name: "newgroup", Input: &f.group, Max: form.MaxInput, Path: "group"},
		{Name: "reason", Input: &f.reason, Max: form.MaxReasonInput},
		{Name: "confirm", Input: &f.confirm, Max: 20},
	}
}

// placeOf returns the parameters of a list's address that are no filter.
func placeOf(values url.Values) url.Values {
	return url.Values{"order": values["order"], "after": values["after"], "live": values["live"]}
}

// readForm reads the form of the bar or of the bulk page. It returns form.ErrForeign for
// any other form.
func readForm(set *policy.Set, values url.Values) (bulkForm, error) {
	f := bulkForm{
		do: values.Get("do"), ids: values["id"], all: values.Get(ofField) == ofAll, shown: -1,
		place: placeOf(values),
	}
	f.table().Read(values)
	f.until = form.ReadUntil(values)
	var problem string
	if f.filter, problem = changes.ReadKeyFilter(set, values); problem != "" || len(f.ids) > maxSelected ||
		!form.IsOption(actions, f.do) {
		return f, form.ErrForeign
	}
	switch {
	case f.all:
		f.ids = nil
	case len(f.ids) == 0 && values.Get(ofField) != ofSelected:
		return f, form.ErrForeign
	}
	if text := values.Get("count"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return f, form.ErrForeign
		}
		f.shown = n
	}
	withVersion := url.Values{"version": {"0"}}
	for name := range values {
		if name != "version" {
			withVersion[name] = values[name]
		}
	}
	var err error
	if f.override, err = changes.ReadOverrideForm(withVersion); err != nil {
		return f, err
	}
	return f, f.readReview(values)
}

// bulk returns the change that the form asks for. It sets no errors.
func (f *bulkForm) bulk() app.Bulk {
	withErrors := *f
	b := app.Bulk{KeyChange: withErrors.change(), Total: f.total, IDs: f.ids}
	if f.do == app.Plan {
		b.Plan = f.plan.Text
	}
	if f.all {
		b.Filter = &f.filter
	}
	return b
}

// change returns what the form asks for, without the number of a plan. It sets the errors
// of an override and of a time.
func (f *bulkForm) change() app.KeyChange {
	c := app.KeyChange{Do: f.do}
	switch now := time.Now(); f.do {
	case app.Override:
		c.Override = f.override.Override(now)
	case app.Ban:
		c.Until = f.until.BanEnd(now)
	case app.SetExpiry:
		c.Until = f.until.Time(now)
	case app.AddTags, app.RemoveTags:
		c.Tags = f.tags.Tags()
	case app.SetGroup:
		c.Group = strings.TrimSpace(f.group.Text)
	}
	return c
}

// fields returns the fields of what the change sets, unless it is an override.
func (f *bulkForm) fields(set *policy.Set) []templates.FormField {
	switch f.do {
	case app.Plan:
		return []templates.FormField{form.ChoiceField("to", "Plan", wording.PlanOptions(set), f.plan)}
	case app.Ban:
		return form.BanFields(f.until)
	case app.SetExpiry:
		return form.UntilFields(f.until, "never expires")
	case app.AddTags, app.RemoveTags:
		return []templates.FormField{form.TagsField(f.tags)}
	case app.SetGroup:
		return []templates.FormField{
			form.TextField("newgroup", "New group", "none", policy.MaxGroupLen, f.group)}
	}
	return nil
}

// check sets the errors of all fields but the confirmation.
func (f *bulkForm) check(set *policy.Set) {
	change := f.change()
	if f.do == app.Override { // has its own reason
		return
	}
	if _, known := set.Plan(f.plan.Text); f.do == app.Plan && !known {
		f.plan.Error = form.ChooseFromList
	}
	var invalid *policy.InvalidError
	if f.until.ErrorCount() == 0 && errors.As(change.Validate(), &invalid) {
		f.setError(invalid)
	}
	f.reason.CheckReason()
}

// setError shows the errors of a validation at their fields.
func (f *bulkForm) setError(invalid *policy.InvalidError) {
	if f.do == app.Override {
		f.override.SetError(invalid)
		return
	}
	f.problem = append(f.table(), f.until.Table("until")...).SetErrors(invalid)
}

// errorCount returns the number of errors that check found.
func (f *bulkForm) errorCount() int {
	if f.do == app.Override {
		return f.override.Errors()
	}
	return f.table().ErrorCount() + f.until.ErrorCount()
}

// confirmation returns the number of keys that the user must type before the change begins;
// empty if the change needs no confirmation.
func (f *bulkForm) confirmation() string {
	if !f.bulk().NeedsCount() {
		return ""
	}
	return page.Number(f.total)
}

// checkConfirm reports whether the required number is typed, and sets the field's error
// if it is not.
func (f *bulkForm) checkConfirm() bool {
	want := f.confirmation()
	digits := func(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), ",", "") }
	if want != "" && digits(f.confirm.Text) != digits(want) {
		f.confirm.Error = "Type " + want + " to confirm."
	}
	return f.confirm.Error == ""
}

// checkTotal reports whether as many keys match now as the form displayed. If not, it
// sets the problem and clears the confirmation. It is always true for ticked keys.
func (f *bulkForm) checkTotal() bool {
	if !f.all || f.shown == f.total {
		return true
	}
	now := page.Number(f.total) + " keys match now"
	if f.total == 1 {
		now = "1 key matches now"
	}
	f.problem = "Nothing changed: " + now + "."
	if f.shown >= 0 {
		f.problem = "Nothing changed: " + now + ", not " + page.Number(f.shown) + "."
	}
	f.problem += " Confirm again."
	f.confirm = form.Input{}
	return false
}

// renderForm shows the form, with a review of the change if it is reviewable.
func (d *Pages) renderForm(
	w http.ResponseWriter, r *http.Request, status int, set *policy.Set, f bulkForm,
) error {
	list := d.listPath(&f, true)
	bulk := app.Bulk{KeyChange: app.KeyChange{Do: f.do}, Total: f.total}
	heading, v := bulk.Heading(), f.view(set)
	v.Submit, v.Action = heading, d.Path("/keys/bulk")
	v.Danger = f.do == app.Revoke || f.do == app.Reset || f.do == app.Ban
	v.Cancel = templates.Choice{Text: "Back", Address: list}
	v.Error, v.Warning = cmp.Or(f.problem, v.Error), form.Warn(f.warnings)
	carried := url.Values{"do": {f.do}, "id": f.ids, ofField: {ofSelected}}
	if f.all {
		carried[ofField], carried["count"] = []string{ofAll}, []string{strconv.FormatInt(f.total, 10)}
	}
	maps.Copy(carried, f.place)
	maps.Copy(carried, changes.FilterValues(f.filter))
	v.Hidden = hiddenOf(carried)
	p := templates.FormPage{
		Page:    d.Page(r, heading),
		Trail:   []templates.Choice{{Text: "Keys", Address: list}},
		Heading: heading,
		Lead: []string{d.selectionText(r, set, &f) +
			" Revoked keys, and keys that already match the change, are skipped."},
		Form: &v,
	}
	if v.Review = !f.reviewable(set); !v.Review {
		preview, hidden, err := d.preview(r, set, &f)
		if err != nil {
			return page.Failed("preview", err)
		}
		p.Preview, v.Hidden = preview, append(v.Hidden, hidden...)
		if word := f.confirmation(); word != "" {
			v.After = append(v.After,
				form.TextField("confirm", "Type "+word+" to confirm", "", 20, f.confirm))
		}
	}
	return d.Render(w, r, status, templates.FormOf(p))
}

// view returns the fields of the change and the reason.
func (f *bulkForm) view(set *policy.Set) templates.Form {
	if f.do == app.Override {
		return f.override.View()
	}
	fields := f.fields(set)
	return templates.Form{
		Fields: fields, After: []templates.FormField{form.ReasonField(f.reason)},
		Errors: f.errorCount(), Preview: len(fields) > 0,
	}
}

// listPath returns the address of the list of keys as it was, on demand with the same keys
// ticked.
func (d *Pages) listPath(f *bulkForm, ticked bool) string {
	values := changes.FilterValues(f.filter)
	maps.Copy(values, f.place)
	if !ticked {
		return page.Address(d.Path("/keys"), values)
	}
	if values.Set(selectField, strings.Join(f.ids, ",")); f.all {
		values.Set(selectField, ofAll)
	}
	return page.Address(d.Path("/keys"), values)
}

// selectionText describes the keys that the change is for.
func (d *Pages) selectionText(r *http.Request, set *policy.Set, f *bulkForm) string {
	if !f.all {
		return d.selectedNames(r, set, f.ids)
	}
	text := "All keys"
	if f.filter.Prefix != "" {
		text += " whose name contains “" + page.Clip(f.filter.Prefix, changes.MaxSearch) + "”"
	}
	if p, known := set.PlanByNumber(f.filter.Plan); known {
		text += " of the plan " + page.Clip(p.Name, page.MaxName)
	}
	if f.filter.Group != "" {
		text += " of the group “" + page.Clip(f.filter.Group, page.MaxName) + "”"
	}
	if f.filter.Tag != "" {
		text += " tagged “" + page.Clip(f.filter.Tag, policy.MaxTagLen) + "”"
	}
	if f.filter.State != "" {
		text += " that are " + changes.StateText(f.filter.State)
	}
	return text + ": " + page.Number(f.total) + "."
}

// selectedNames lists the names of the ticked keys.
func (d *Pages) selectedNames(r *http.Request, set *policy.Set, ids []string) string {
	keys, err := d.Keys.Many(r.Context(), set, ids)
	if err != nil {
		return "Selected keys."
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = page.Clip(k.Name, page.MaxName)
	}
	return page.Clip(strings.Join(names, ", "), 1000) + "."
}

// hiddenOf returns hidden fields with the values, in a fixed order.
func hiddenOf(values map[string][]string) []templates.Hidden {
	var hidden []templates.Hidden
	for name, all := range values {
		for _, v := range all {
			if v != "" {
				hidden = append(hidden, templates.Hidden{Name: name, Value: v})
			}
		}
	}
	slices.SortFunc(hidden, func(x, y templates.Hidden) int {
		return strings.Compare(x.Name+"\x00"+x.Value, y.Name+"\x00"+y.Value)
	})
	return hidden
}
