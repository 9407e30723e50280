package bulk

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/web/templates"
)

// actions are what can be done to many keys, with the verbs on their buttons.
var actions = []templates.Option{
	{Value: app.Plan, Text: "Change plan"},
	{Value: app.Override, Text: "Override limits"},
	{Value: app.EndOverride, Text: "End overrides"},
	{Value: app.Reset, Text: "Reset counts"},
	{Value: app.Revoke, Text: "Revoke"},
}

// What the list's address and the bar's form say of the selection.
const (
	selectField = "select"
	ofField     = "of"
	ofSelected  = "selected"
	ofPage      = "page"
	ofAll       = "all"
)

// Bar is the form below the list of keys. It ticks the rows where the address says so.
func (d *Pages) Bar(r *http.Request, f app.KeyFilter, p templates.KeysPage) (*templates.Bulk, error) {
	if !page.CanEdit(r) || len(p.Rows) == 0 {
		return nil, nil
	}
	b := &templates.Bulk{
		Action: d.Path("/keys/bulk"), Actions: actions, Of: ofSelected,
		Page: page.Number(int64(len(p.Rows))), More: p.First != "" || p.Next != "",
	}
	b.Hidden = hiddenOf(changes.FilterValues(f))
	if b.More && !f.Computed() {
		n, err := d.Keys.Count(r.Context(), f)
		if err != nil {
			return nil, err
		}
		b.All = page.Number(n)
	}
	here := r.URL.Query()
	chosen := here.Get(selectField)
	for to, value := range map[*string]string{&b.SelectPage: ofPage, &b.SelectAll: ofAll, &b.Clear: ""} {
		here.Set(selectField, value)
		*to = page.Address(d.Path("/keys"), here)
	}
	if chosen != ofPage && chosen != ofAll {
		return b, nil
	}
	if b.Ticked = true; chosen == ofAll {
		b.Of = ofAll
	}
	for i := range p.Rows {
		p.Rows[i].Ticked = true
	}
	return b, nil
}

// Unfinished returns the jobs that wait to be continued. A list of keys is shown without
// them if they cannot be read.
func (d *Pages) Unfinished(r *http.Request) []templates.Choice {
	if !page.CanEdit(r) {
		return nil
	}
	jobs, err := d.Keys.OpenJobs(r.Context())
	if err != nil {
		return nil
	}
	var open []templates.Choice
	for _, j := range jobs {
		open = append(open, templates.Choice{Address: d.jobPath(j.ID),
			Text: page.Clip(j.Title(), page.MaxName) +
				": " + page.Number(j.Processed()) + " of " + page.Number(j.Total) + " done"})
	}
	return open
}

func (d *Pages) jobPath(id string) string { return d.Path("/jobs/" + id) }

// hiddenOf carries values on in a form.
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

// failCount answers when keys cannot be counted.
func (d *Pages) failCount(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, app.ErrUncounted) {
		d.Fail(w, r, page.Problem{
			Status: http.StatusUnprocessableEntity, Heading: "Too many keys to count",
			Advice: "Narrow the filter, such as by the start of the name.",
		})
		return
	}
	d.FailStore(w, r, "count keys", err)
}
