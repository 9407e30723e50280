package command

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/list"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// Fields of the bar below the list of keys, and what they may be.
const (
	selectField = "select" // query parameter of the list: ofPage, ofAll or ids tick rows
	ofField     = "of"
	ofSelected  = "selected"
	ofPage      = "page"
	ofAll       = "all"
	filterField = "filter" // query of the list's filter
	placeField  = "list"   // query of the list's order and page
	countField  = "count"
	stateField  = "progress"
)

const (
	maxSelected = 100 // keys that can be ticked: those of one page
	buttons     = 4   // commands that the bar shows as buttons
	sealLabel   = "bulk"
	sealedFor   = 12 * time.Hour
	maxFailures = 100 // that a page names
)

// manyRoutes returns the pages for commands to many keys.
func (p *Pages) manyRoutes() []auth.Route {
	handle := func(w http.ResponseWriter, r *http.Request) error {
		if err := page.ParseForm(r); err != nil {
			return err
		}
		if state := r.PostForm.Get(stateField); state != "" {
			return p.next(w, r, state)
		}
		e, err := manyOf(r.Form)
		switch {
		case err != nil:
			return err
		case r.Method == http.MethodPost:
			return p.send(e)(w, r)
		}
		return p.show(e)(w, r)
	}
	return []auth.Route{
		{Pattern: "GET /keys/bulk", Role: auth.Editor, Handle: handle, Deadline: auth.Long},
		{Pattern: "POST /keys/bulk", Role: auth.Editor, Handle: handle, Resumes: true, Deadline: auth.Long},
	}
}

// manyOf returns the command to many keys that a form asks for.
func manyOf(v url.Values) (entry, error) {
	at := slices.IndexFunc(bulks, func(b bulk) bool { return b.name == v.Get("do") })
	ids, of := v["id"], v.Get(ofField)
	filter, filterErr := url.ParseQuery(v.Get(filterField))
	place, placeErr := url.ParseQuery(v.Get(placeField))
	switch {
	case at < 0, filterErr != nil, placeErr != nil, len(ids) > maxSelected, of != ofAll && of != ofSelected:
		return entry{}, page.Problem{Status: http.StatusBadRequest}
	case of == ofAll:
		ids = nil
	case len(ids) == 0:
		return entry{}, page.Problem{Status: http.StatusUnprocessableEntity, Heading: "No keys selected",
			Advice: "Select keys in the list, or choose all that match."}
	}
	chosen := selection{of: of, filter: filter, place: place}
	if text := v.Get(countField); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return entry{}, page.Problem{Status: http.StatusBadRequest}
		}
		chosen.shown = &n
	}
	c := &Many{bulk: bulks[at], ids: ids, page: chosen}
	if n, err := whole(v.Get("confirm")); err == nil {
		c.confirm = &n
	}
	return entry{Spec: Spec{Form: "/keys/bulk", Review: true, Danger: c.danger,
		Lead: "Revoked keys, and keys that already match the change, are skipped."},
		fresh: func() Command {
			c.change = c.fresh()
			return prepared(c)
		}}, nil
}

// read sets the filter that a page selects by.
func (s selection) read(c *Many) error {
	if s.of != ofAll {
		return nil
	}
	q, err := list.Read[app.KeyQuery](s.filter)
	if err != nil || q.Read(c.set) != nil {
		return page.Problem{Status: http.StatusBadRequest}
	}
	c.filter = &q.Filter
	return nil
}

// carried returns what the form sends beside its fields.
func (c *Many) carried() url.Values {
	v := url.Values{"do": {c.name}, "id": c.ids, ofField: {c.page.of}, filterField: {c.page.filter.Encode()},
		placeField: {c.page.place.Encode()}}
	if c.page.of == ofAll {
		v.Set(countField, strconv.FormatInt(c.total, 10))
	}
	return v
}

func (c *Many) subject() Subject {
	list := c.page.address(c.ids, true)
	return Subject{Path: list, Trail: []templates.Choice{{Text: "Keys", Address: list}}}
}

// lead implements leader: which keys are selected.
func (c *Many) lead(ctx context.Context, s *Services) ([]string, error) {
	if c.filter == nil {
		found, err := s.Keys.Many(ctx, c.set, c.ids)
		names := make([]string, len(found))
		for i, k := range found {
			names[i] = page.Clip(k.Name, page.MaxName)
		}
		return []string{page.Clip(strings.Join(names, ", "), 1000) + "."}, err
	}
	text := "All keys"
	if f := c.filter; f.Prefix != "" {
		text += " whose name contains “" + page.Clip(f.Prefix, page.MaxName) + "”"
	}
	if p, known := c.set.PlanByNumber(c.filter.Plan); known {
		text += " of the plan " + page.Clip(p.Name, page.MaxName)
	}
	if c.filter.Group != "" {
		text += " of the group “" + page.Clip(c.filter.Group, page.MaxName) + "”"
	}
	if c.filter.Tag != "" {
		text += " tagged “" + page.Clip(c.filter.Tag, policy.MaxTagLen) + "”"
	}
	if c.filter.State != "" {
		text += " that are " + wording.StateText(c.filter.State)
	}
	return []string{text + ": " + page.Number(c.total) + "."}, nil
}

// ask returns the field by which the author confirms the number of keys; nil without one.
func (c *Many) ask(problem string) []templates.FormField {
	if !c.danger || c.filter == nil {
		return nil
	}
	f := templates.FormField{ID: "confirm", Label: "Type " + page.Number(c.total) + " to confirm",
		Kind: templates.TextField, Max: "20", Field: templates.Field{Error: problem}}
	if c.confirm != nil && problem == "" {
		f.Field.Value = page.Number(*c.confirm)
	}
	return []templates.FormField{f}
}

// recounted says that another number of keys match now than the form showed; empty if not.
func (c *Many) recounted() string {
	if c.filter == nil || c.page.shown != nil && *c.page.shown == c.total {
		return ""
	}
	now := page.Number(c.total) + " keys match now"
	if c.total == 1 {
		now = "1 key matches now"
	}
	if c.page.shown != nil {
		now += ", not " + page.Number(*c.page.shown)
	}
	c.confirm = nil
	return "Nothing changed: " + now + ". Confirm again."
}

// preview implements previewer: what the command makes of the first keys.
func (c *Many) preview(ctx context.Context, s *Services) (*templates.Preview, error) {
	b, err := c.bulkChange()
	if err != nil {
		return nil, err
	}
	found, err := s.Keys.ReviewBulk(ctx, c.set, b)
	if err != nil {
		return nil, err
	}
	p := &templates.Preview{Effects: []string{reviewText(found, c.total)}}
	for _, row := range found.Rows {
		before := row.Before.Key
		shown := templates.KeyChanges{
			Name:    page.Clip(before.Name, page.MaxName),
			Address: "/keys/" + before.ID,
		}
		if shown.Changes = changes.OfKey(c.set, before, row.After); b.Change.Action == registry.KeyReset {
			shown.Changes = countsOf(row.Before)
		}
		p.Keys = append(p.Keys, shown)
	}
	return p, nil
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

// Ticked returns which rows of the list of keys the address of a request selects.
func Ticked(r *http.Request) func(id string) bool {
	chosen := r.URL.Query().Get(selectField)
	ids := strings.Split(chosen, ",")
	return func(id string) bool { return chosen == ofPage || chosen == ofAll || slices.Contains(ids, id) }
}

// Bar returns the form below the list of keys that a filter selects. matching is their
// number, if it is known.
func Bar(rd *page.Renderer, r *http.Request, filter url.Values, v *templates.List,
	matching string) templ.Component {
	b := templates.Bulk{Action: rd.Path("/keys/bulk"), Of: ofSelected,
		Page: page.Number(int64(len(v.Table.Rows))), More: v.First != "" || v.Next != ""}
	for i, each := range bulks {
		option := templates.Option{Value: each.name, Text: barTexts[each.name]}
		if i < buttons {
			b.Actions = append(b.Actions, option)
		} else {
			b.Others = append(b.Others, option)
		}
	}
	here := r.URL.Query()
	place := url.Values{"order": here["order"], "after": here["after"], "live": here["live"]}
	filter.Del("order")
	b.Hidden = []templates.Hidden{{Name: filterField, Value: filter.Encode()},
		{Name: placeField, Value: place.Encode()}}
	if b.More {
		b.All = matching
	}
	chosen := here.Get(selectField)
	for to, value := range map[*string]string{&b.SelectPage: ofPage, &b.SelectAll: ofAll, &b.Clear: ""} {
		here.Set(selectField, value)
		*to = page.Address(rd.Path("/keys"), here)
	}
	if b.Ticked = chosen == ofPage || chosen == ofAll; chosen == ofAll {
		b.Of = ofAll
	}
	return templates.BulkBar(b)
}

// barTexts are the commands for many keys on the bar.
var barTexts = map[string]string{"plan": "Change plan", "override": "Override limits", "ban": "Ban",
	"revoke": "Revoke", "tag": "Add tags", "untag": "Remove tags", "group": "Change group",
	"expiry": "Change expiry", "end": "End overrides", "unban": "Unban", "reset": "Reset counts"}
