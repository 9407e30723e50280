package bulk

import (
	"maps"
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

// A change is confirmed on a page that shows what it makes of the first keys. The page
// has these hidden fields, so that it is shown again if the change, or one of these keys,
// is another by then.
const (
	reviewedField = "reviewed" // digest of the selection and of the change
	rowField      = "row"      // id and version of a key that is shown, with a colon between
)

// review is what the form carries from the page that was shown.
type review struct {
	digest string            // of the change that is typed now
	shown  string            // of the change that was reviewed; empty for none
	rows   map[string]string // version by id
}

// readReview reads the fields of the review, and digests the change of f. It returns
// form.ErrForeign for fields that no page has.
func (f *bulkForm) readReview(values url.Values) error {
	typed := changes.FilterValues(f.filter)
	typed["do"], typed[ofField] = []string{f.do}, values[ofField]
	typed["id"] = slices.Sorted(slices.Values(f.ids)) // the page sorts its hidden fields
	for name, texts := range values {
		switch {
		case strings.HasPrefix(name, "limits["),
			slices.Contains([]string{"to", "tags", "newgroup", "lasts", "until"}, name):
			typed[name] = texts
		}
	}
	maps.DeleteFunc(typed, func(_ string, texts []string) bool { return strings.Join(texts, "") == "" })
	f.review = review{form.Digest([]string{typed.Encode()}), values.Get(reviewedField), map[string]string{}}
	for _, row := range values[rowField] {
		id, version, both := strings.Cut(row, ":")
		if !both || !app.IsID(id) || len(f.review.rows) > maxSelected {
			return form.ErrForeign
		}
		f.review.rows[id] = version
	}
	return nil
}

// reviewable reports whether the form shows what the change makes of keys: it needs no
// input, or its user asked for it, and no field of the change is invalid.
func (f *bulkForm) reviewable(set *policy.Set) bool {
	wrong := f.errorCount() - form.CountErrors(f.reason, f.confirm)
	if f.do == app.Override {
		wrong = f.override.Errors() - form.CountErrors(f.override.Reason)
	}
	return wrong == 0 && (f.asked || f.do != app.Override && len(f.fields(set)) == 0)
}

// checkReview reports whether the change was reviewed as it is, and whether the keys that
// were shown are still as they were. If not, it sets the problem.
func (d *Pages) checkReview(r *http.Request, set *policy.Set, f *bulkForm) (bool, error) {
	f.asked = true
	switch f.review.shown {
	case f.review.digest:
	case "":
		f.problem = "Review the changes below, then confirm."
		return false, nil
	default:
		f.problem = "Nothing changed: this is not the change that you reviewed. " +
			"Review it below, then confirm."
		return false, nil
	}
	keys, err := d.Keys.Many(r.Context(), set, slices.Collect(maps.Keys(f.review.rows)))
	if err != nil {
		return false, page.Failed("read keys", err)
	}
	var moved []string
	for _, k := range keys {
		if strconv.FormatInt(k.Version, 10) != f.review.rows[k.ID] {
			moved = append(moved, "“"+page.Clip(k.Name, page.MaxName)+"” was changed meanwhile")
		}
	}
	if gone := int64(len(f.review.rows) - len(keys)); gone > 0 {
		moved = append(moved, app.KeyCount(gone)+" of those shown no longer exist")
	}
	if len(moved) == 0 {
		return true, nil
	}
	f.problem = "Nothing changed: " + strings.Join(moved, ", ") + ". Review the changes again."
	f.confirm = form.Input{}
	return false, nil
}

// preview returns what the change makes of the first keys, in words, and the fields that
// checkReview needs.
func (d *Pages) preview(r *http.Request, set *policy.Set, f *bulkForm) (
	*templates.Preview, []templates.Hidden, error) {
	found, err := d.Keys.ReviewBulk(r.Context(), set, f.bulk())
	if err != nil {
		return nil, nil, err
	}
	p := &templates.Preview{Effects: []string{reviewText(found, f.total)}}
	hidden := []templates.Hidden{{Name: reviewedField, Value: f.review.digest}}
	for _, row := range found.Rows {
		before := row.Before.Key
		hidden = append(hidden, templates.Hidden{Name: rowField,
			Value: before.ID + ":" + strconv.FormatInt(before.Version, 10)})
		shown := templates.KeyChanges{Name: page.Clip(before.Name, page.MaxName),
			Address: d.Path("/keys/" + before.ID)}
		if shown.Changes = changes.OfKey(set, before, row.After); f.do == app.Reset {
			shown.Changes = countsOf(row.Before)
		}
		p.Keys = append(p.Keys, shown)
	}
	return p, hidden, nil
}

// countsOf returns what a reset makes of the counts of a key.
func countsOf(s app.Subject) []templates.Change {
	var all []templates.Change
	for _, l := range s.Limits {
		if l.Who.OfCaller() && !l.Unread {
			all = append(all, templates.Change{What: "used of " + l.String(),
				Before: page.Number(l.Used()), After: "0"})
		}
	}
	return all
}

// reviewText says how many keys would change.
func reviewText(found app.Review, total int64) string {
	text := app.KeyCount(int64(found.Read))
	if text = page.Number(int64(found.Change)) + " of " + text; !found.Whole {
		text += ", the first of " + page.Number(total) + ","
	}
	text += " would change"
	if same := int64(found.Read - found.Change); same > 0 {
		text += "; " + page.Number(same) + " would not"
	}
	if shown := int64(len(found.Rows)); shown < int64(found.Change) {
		text += ". The first " + page.Number(shown) + " are shown"
	}
	return text + "."
}
