package dashboard

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

const overridesPerPage = 200

func (d *dashboard) showOverrides(w http.ResponseWriter, r *http.Request) {
	after := r.URL.Query().Get("after")
	if len(after) > maxCursor {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return
	}
	list, err := d.Keys.List(r.Context(), set, app.KeyFilter{State: app.Overridden}, after, overridesPerPage)
	if err != nil {
		d.FailStore(w, r, "list overrides", err)
		return
	}
	p := templates.OverridesPage{Page: d.Page(r, "Overrides"), Rows: d.overrideRows(r, set, list.Keys)}
	p.Empty = templates.Empty{Heading: "No overrides",
		Advice: "Every key has its plan's limits. Override them on a key's page."}
	if after != "" {
		p.First = d.Path("/overrides")
	}
	if list.Next != "" {
		p.Next = d.Path("/overrides?after=" + list.Next)
		p.Note = "Each page lists those ending soon first."
	}
	d.Render(w, r, http.StatusOK, templates.Overrides(p))
}

// overrideRows has those first that end soon, then those without end, then those that
// ended.
func (d *dashboard) overrideRows(r *http.Request, set *policy.Set,
	keys []policy.Key) []templates.OverrideRow {
	now := time.Now()
	keys = slices.DeleteFunc(slices.Clone(keys), func(k policy.Key) bool { return k.Override == nil })
	rank := func(o *policy.Override) (int, int64) {
		switch {
		case !o.ActiveAt(now):
			return 2, -o.Until.Unix()
		case o.Until.IsZero():
			return 1, 0
		}
		return 0, o.Until.Unix()
	}
	slices.SortStableFunc(keys, func(a, b policy.Key) int {
		ra, ta := rank(a.Override)
		rb, tb := rank(b.Override)
		return cmp.Or(cmp.Compare(ra, rb), cmp.Compare(ta, tb))
	})
	rows := make([]templates.OverrideRow, len(keys))
	for i, k := range keys {
		o := *k.Override
		words := o
		words.Until = time.Time{}
		plan, _ := set.Plan(k.Plan)
		rows[i] = templates.OverrideRow{
			Name: page.Clip(k.Name, page.MaxName), Address: d.keyPath(k),
			Plan:   page.Clip(k.Plan, page.MaxName),
			Before: policydoc.LimitsText(plan.Limits), After: wording.Override(&words),
			Reason: page.Clip(o.Reason, policy.MaxReasonLen), Ends: "no end",
		}
		switch {
		case !o.ActiveAt(now):
			rows[i].Ended, rows[i].Ends = true, "ended "+page.Instant(o.Until).Text
		case !o.Until.IsZero():
			rows[i].Ends, rows[i].Soon = "in "+page.Span(o.Until.Sub(now)), o.Until.Sub(now) < 24*time.Hour
			rows[i].At = page.Instant(o.Until)
		}
		if page.CanEdit(r) && k.Status == policy.Active {
			rows[i].End, rows[i].Edit = d.keyPath(k)+"/end", d.keyPath(k)+"/limits"
		}
	}
	return rows
}
