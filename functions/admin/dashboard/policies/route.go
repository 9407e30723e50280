package policies

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// routeForm creates or edits a route.
type routeForm struct {
	old    string // saved name of the route; empty for a new one
	row    int    // index of the route in the set that apply changed
	name   form.Input
	match  form.Input // patterns
	cost   form.Input
	settle form.Input
	scopes form.Input // one a line
}

// maxScopesText exceeds the length of the longest valid list of scopes.
const maxScopesText = 4000

// routeEdit returns the edit of the route that the request names, or of a new one if it
// names none.
func routeEdit(r *http.Request) (edit, bool) {
	name := r.URL.Query().Get("route")
	if r.Method == http.MethodPost {
		name = r.PostForm.Get("route")
	}
	return edit{path: "/policies/routes", form: &routeForm{old: name}}, true
}

// showRoute shows the form of an existing route.
func (d *pages) showRoute(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Query().Get("route") == "" {
		return page.Problem{Status: http.StatusBadRequest}
	}
	return d.show(routeEdit)(w, r)
}

func routeIndex(set *policy.Set, name string) int {
	return slices.IndexFunc(set.Routes, func(r limits.Route) bool { return r.Name == name })
}

func (f *routeForm) fields() form.Table {
	return form.Table{
		{Name: "name", Input: &f.name, Max: policy.MaxNameLen + 50},
		{Name: "match", Input: &f.match, Max: form.MaxPatternsText},
		{Name: "cost", Input: &f.cost, Max: maxCostText},
		{Name: "settle", Input: &f.settle, Max: form.MaxInput},
		{Name: "scopes", Input: &f.scopes, Max: maxScopesText},
	}
}

func (f *routeForm) fill(set *policy.Set) bool {
	if f.old == "" {
		return true
	}
	i := routeIndex(set, f.old)
	if i < 0 {
		return false
	}
	r := set.Routes[i]
	f.name.Text, f.match, f.cost.Text = r.Name, form.PatternsInput(r.Match), costText(r.Cost)
	f.scopes.Text = strings.Join(r.Scopes, "\n")
	if r.Settle {
		f.settle.Text = form.Checked
	}
	return true
}

func (f *routeForm) apply(next *policy.Set) bool {
	r := limits.Route{Name: strings.TrimSpace(f.name.Text), Match: f.match.Patterns(limits.MaxPatterns),
		Cost: readCost(&f.cost), Settle: f.settle.Text != "", Scopes: strings.Fields(f.scopes.Text)}
	if f.old == "" {
		f.row = len(next.Routes)
		next.Routes = append(next.Routes, r)
		return true
	}
	if f.row = routeIndex(next, f.old); f.row < 0 {
		return false
	}
	r.ID = next.Routes[f.row].ID
	next.Routes[f.row] = r
	renameRoute(next, f.old, r.Name)
	return true
}

// renameRoute changes the name of a route in the limits of plans and of all callers. It
// copies them, since the saved set shares them. Overrides follow by themselves.
func renameRoute(s *policy.Set, from, to string) {
	if from == to {
		return
	}
	rename := func(list []limits.Limit) []limits.Limit {
		list = slices.Clone(list)
		for i := range list {
			l := &list[i]
			if l.On == from {
				l.On = to
			}
			if at := slices.Index(l.Except, from); at >= 0 {
				l.Except = slices.Clone(l.Except)
				l.Except[at] = to
				slices.Sort(l.Except)
			}
		}
		return list
	}
	for i := range s.Plans {
		s.Plans[i].Limits = rename(s.Plans[i].Limits)
	}
	s.Limits = rename(s.Limits)
}

func (f *routeForm) setError(e policy.FieldError) bool {
	return f.fields().SetError(e, fmt.Sprintf("routes[%d].", f.row))
}

func (f *routeForm) heading() (text, name string) {
	if f.old == "" {
		return "Create a route", ""
	}
	return "Route", f.old
}

func (f *routeForm) view(*policy.Set) templates.Form {
	cost := form.TextField("cost", "Cost of a call", "1", maxCostText, f.cost)
	cost.Hint = "A number, or one for each unit: 500 input, 800 output. 0 is free in every unit."
	return templates.Form{
		Hidden: []templates.Hidden{{Name: "route", Value: f.old}},
		Fields: []templates.FormField{
			form.TextField("name", "Name", "search", policy.MaxNameLen, f.name),
			cost,
			{ID: "settle", Label: "Backend settles the actual cost", Kind: templates.CheckField,
				Field: form.Field(f.settle)},
			form.PatternsField("match", "Calls to", "One pattern a line: POST /chat, GET /orders/{id}, "+
				"/files/* for every method. GET covers HEAD.", f.match),
			{ID: "scopes", Label: "Scopes of tokens", Kind: templates.AreaField, Sample: "orders:read",
				Hint: "One a line. A token needs one of them. Without scopes, every token may call.",
				Max:  strconv.Itoa(maxScopesText), Field: form.Field(f.scopes)},
		},
	}
}

func (f *routeForm) done() string {
	return "Saved the route " + page.Clip(f.name.Text, page.MaxName) + "."
}

// routeDeletion returns the edit that deletes the route in the address.
func routeDeletion(r *http.Request) (edit, bool) {
	name := r.URL.Query().Get("route")
	c := &confirmation{title: "Delete the route", submit: "Delete", danger: true,
		message: "Route deleted.",
		find: func(set *policy.Set) (string, []string, bool) {
			route, found := set.Route(name)
			if !found {
				return name, nil, false
			}
			return name, []string{policydoc.RouteText(route) + "."}, true
		},
		change: func(next *policy.Set) {
			i := routeIndex(next, name)
			next.Routes = slices.Delete(next.Routes, i, i+1)
		},
	}
	return edit{form: c, path: "/policies/routes/delete?route=" + url.QueryEscape(name)}, true
}
