package dashboard

import (
	"net/http"
	"strconv"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
)

// exportKeys sends the keys that the filter means, as far as one file goes; its last row
// and a Link header lead to the rest.
func (d *dashboard) exportKeys(w http.ResponseWriter, r *http.Request) {
	query, ok := readKeysQuery(r)
	if !ok {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return
	}
	t := page.NewTable("id", "name", "plan", "group", "status", "state", "env", "tags", "limits", "used",
		"override until", "override reason", "expires",
		"banned until",
		"created", "updated", "version")
	next := query.after
	for {
		list, err := app.FindKeys(r.Context(), d.Keys, set, query.KeyFilter, next, page.CSVRows)
		if err != nil {
			d.FailStore(w, r, "export keys", err)
			return
		}
		for _, s := range list.Subjects {
			t.Row(keyCells(s)...)
		}
		if next = list.Next; next == "" || t.Ends() {
			break
		}
	}
	if next != "" {
		values := changes.FilterValues(query.KeyFilter)
		values.Set("after", next)
		next = page.Address(d.Path("/keys.csv"), values)
	}
	t.Send(w, "tidegate-keys.csv", next)
}

func keyCells(s app.Subject) []string {
	var states, used []string
	for _, b := range wording.Badges(s) {
		states = append(states, b.Text)
	}
	for _, u := range s.Now.Limits {
		used = append(used, strconv.FormatInt(u.Used(), 10))
	}
	until, reason := "", ""
	if s.Override != nil {
		until, reason = page.Stamp(s.Override.Until), s.Override.Reason
	}
	return []string{
		s.ID, s.Name, s.Plan, s.Group, string(s.Status), strings.Join(states, "; "), s.Env,
		strings.Join(s.Tags, ", "),
		policydoc.LimitsText(s.Effective.Limits),
		strings.Join(used, "; "), until, reason, page.Stamp(s.Expires), page.Stamp(s.BannedUntil),
		page.Stamp(s.Created), page.Stamp(s.Updated),
		strconv.FormatInt(s.Version, 10),
	}
}
