// Package table shows a list as a page and as a CSV file: its columns, filters with a chip
// for each, pages, and what is said of an empty list. The packages below dashboard define
// their lists by it; the API answers the same queries.
package table

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/list"
	"tidegate/web/templates"
)

// Of is a list of T that queries Q select. *Q is a list.Query.
type Of[Q, T any] struct {
	*page.Renderer

	Path, Title string
	Caption     string             // of the table, for screen readers
	File        string             // name of the CSV file; empty for none
	Live        bool               // the page refreshes itself
	RowID       func(*T) string    // nil for none
	Order       func(*Q) string    // the order that a query asks for; nil for one order
	Ranges      []templates.Option // named ranges of a query with a list.Period

	Columns func(*Q) []Column[T]
	// Read returns a page. It may replace what a person typed by what that means.
	Read func(context.Context, *Q) (list.Page[T], error)
	// Filters returns the fields of the form, without their values; nil for none.
	Filters func(context.Context, *Q) ([]templates.Filter, error)
	// Empty returns what is shown in place of no rows.
	Empty func(*Q, *list.Page[T]) templates.Empty
	// Add adds to the page what no other list has; nil for nothing. The list is nil for an
	// invalid query.
	Add func(*http.Request, *templates.List, *Q, *list.Page[T]) error
}

// Column is a column of the page.
type Column[T any] struct {
	Head  string
	Class string // as in templates.Head
	Order string // value of the parameter order that sorts by the column; empty for none
	Up    bool   // that order is ascending
	Top   templ.Component
	Cell  func(*T) templ.Component
	// Lines returns a cell for each line of the row, in place of Cell. Such columns are the
	// last ones.
	Lines func(*T) []templ.Component
}

// Rows returns items as rows of a table.
func Rows[T any](caption string, columns []Column[T], items []T, id func(*T) string) templates.Table {
	t := templates.Table{Caption: caption}
	for _, c := range columns {
		t.Heads = append(t.Heads, templates.Head{Text: c.Head, Class: c.Class, Top: c.Top})
	}
	for i := range items {
		var row templates.Row
		if id != nil {
			row.ID = id(&items[i])
		}
		for _, c := range columns {
			if c.Lines == nil {
				row.Cells = append(row.Cells, c.Cell(&items[i]))
				continue
			}
			for n, cell := range c.Lines(&items[i]) {
				if n == len(row.Lines) {
					row.Lines = append(row.Lines, nil)
				}
				row.Lines[n] = append(row.Lines[n], cell)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Show answers with the page, or with its live part.
func (l *Of[Q, T]) Show(w http.ResponseWriter, r *http.Request) error {
	v := templates.List{Page: l.Page(r, l.Title), Path: l.Renderer.Path(l.Path)}
	q, found, err := l.read(r)
	invalid, isInvalid := errors.AsType[*list.InvalidError](err)
	switch {
	case isInvalid && invalid.Name == "after":
		return page.Problem{Status: http.StatusBadRequest}
	case isInvalid:
		return l.showInvalid(w, r, v, q, invalid)
	case err != nil:
		return page.Failed("list "+l.Path, err)
	}
	values, place := list.Values(q), any(q).(list.Query).Place()
	if err := l.addFilters(r, &v, q, values); err != nil {
		return err
	}
	if l.File != "" {
		v.Export = page.Address(v.Path+".csv", values)
	}
	if l.Live {
		here := maps.Clone(values)
		here.Set("after", place.After)
		live := l.Renderer.Live(r, v.Path, here, time.Now())
		live.Summary = page.Number(int64(len(found.Items))) + " rows shown"
		v.Live, values = &live, page.WithLive(values, live.Seconds)
		v.Hidden = append(v.Hidden, templates.Hidden{Name: "live", Value: strconv.Itoa(live.Seconds)})
	}
	v.Clear = page.Address(v.Path, page.WithLive(nil, page.LiveSeconds(r)))
	v.Table, v.Notes, v.Empty = l.table(q, found.Items, v.Path, values), found.Notes, l.Empty(q, &found)
	if place.After != "" {
		v.First = page.Address(v.Path, values)
	}
	if found.Next != "" {
		v.Next = after(v.Path, values, found.Next)
	}
	if l.Add != nil {
		if err := l.Add(r, &v, q, &found); err != nil {
			return err
		}
	}
	if l.Live && page.IsRefresh(r) {
		return l.Render(w, r, http.StatusOK, templates.ListLive(v))
	}
	return l.Render(w, r, http.StatusOK, templates.ListPage(v))
}

// after returns the address of the page at a place.
func after(path string, values url.Values, place string) string {
	next := maps.Clone(values)
	next.Set("after", place)
	return page.Address(path, next)
}

// read reads the query in the address, and the page that it asks for.
func (l *Of[Q, T]) read(r *http.Request) (*Q, list.Page[T], error) {
	values := r.URL.Query()
	for name := range values {
		if app.LooksLikeSecret(values.Get(name)) {
			return new(Q), list.Page[T]{}, &list.InvalidError{Name: name, Secret: true, Message: app.Pasted}
		}
	}
	q, err := list.Read[Q](values)
	if err != nil {
		return q, list.Page[T]{}, err
	}
	found, err := l.Read(r.Context(), q)
	return q, found, err
}

// showInvalid answers with the form as it was typed, and with what is wrong with it.
func (l *Of[Q, T]) showInvalid(w http.ResponseWriter, r *http.Request, v templates.List, q *Q,
	invalid *list.InvalidError) error {
	typed := url.Values{}
	for name := range r.URL.Query() {
		if name != invalid.Name || !invalid.Secret {
			typed.Set(name, page.Clip(r.URL.Query().Get(name), maxTyped))
		}
	}
	if err := l.addFilters(r, &v, q, typed); err != nil {
		return err
	}
	v.Problem = strings.ToUpper(invalid.Name[:1]) + invalid.Name[1:]
	for _, f := range v.Filters {
		if f.Name == invalid.Name {
			v.Problem = f.Label
		}
	}
	v.Problem, v.Clear = v.Problem+": "+invalid.Message+".", v.Path
	if l.Add != nil {
		if err := l.Add(r, &v, q, nil); err != nil {
			return err
		}
	}
	return l.Render(w, r, http.StatusUnprocessableEntity, templates.ListPage(v))
}

const (
	maxTyped = 200                // characters of a value that is shown again
	formTime = "2006-01-02T15:04" // of a datetime-local field, in UTC
)

// timeFields are the parameters of a list.Period.
var timeFields = []string{"range", "from", "to"}

// timeRange returns the menu of the list's time, which keeps the other parameters.
func (l *Of[Q, T]) timeRange(path string, values url.Values) *templates.Range {
	r := &templates.Range{Action: path, Text: "Own range",
		Choices: page.Spans(path, values, l.Ranges, values.Get("range"))}
	for _, c := range r.Choices {
		if c.Current {
			r.Text = c.Text
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch at, err := list.ParseInstant(values.Get(name)); {
		case slices.Contains(timeFields, name) && err != nil:
		case name == "from":
			r.From = at.Format(formTime)
		case name == "to":
			r.To = at.Format(formTime)
		case name != "after" && values.Get(name) != "":
			r.Hidden = append(r.Hidden, templates.Hidden{Name: name, Value: values.Get(name)})
		}
	}
	return r
}

// addFilters adds the form with the values of the query, its chips, and the named ranges.
func (l *Of[Q, T]) addFilters(r *http.Request, v *templates.List, q *Q, values url.Values) error {
	if l.Ranges != nil {
		v.Range = l.timeRange(v.Path, values)
		for _, name := range timeFields {
			if value := values.Get(name); value != "" {
				v.Hidden = append(v.Hidden, templates.Hidden{Name: name, Value: value})
			}
		}
	}
	if l.Filters == nil {
		return nil
	}
	var err error
	if v.Filters, err = l.Filters(r.Context(), q); err != nil {
		return page.Failed("list "+l.Path, err)
	}
	for i := range v.Filters {
		f := &v.Filters[i]
		if f.Value = values.Get(f.Name); f.Value == "" {
			continue
		}
		chip := templates.Chip{Name: f.Label, Value: cmp.Or(f.Shown, f.Value),
			Remove: page.Filtered(v.Path, values, f.Name, "")}
		for _, o := range f.Options {
			if o.Value == f.Value {
				chip.Value = o.Text
			}
		}
		chip.Value = page.Clip(chip.Value, page.MaxName)
		v.Chips = append(v.Chips, chip)
	}
	return nil
}

// table returns the rows of a page, whose heads lead to the orders of the list.
func (l *Of[Q, T]) table(q *Q, items []T, path string, values url.Values) templates.Table {
	columns := l.Columns(q)
	t := Rows(l.Caption, columns, items, l.RowID)
	t.ID = strings.ReplaceAll(l.Path[1:], "/", "-")
	for i, c := range columns {
		if c.Order == "" {
			continue
		}
		t.Heads[i].Sort = page.Filtered(path, values, "order", c.Order)
		if l.Order(q) == c.Order {
			t.Heads[i].Order = "descending"
			if c.Up {
				t.Heads[i].Order = "ascending"
			}
		}
	}
	return t
}

// Export answers with the list as CSV, up to the bounds of list.File. The last row of a full
// file, and a Link header, lead to the rest.
func (l *Of[Q, T]) Export(w http.ResponseWriter, r *http.Request) error {
	file, next := list.NewFile[T](), ""
	values := r.URL.Query()
	values.Set("count", strconv.Itoa(list.CSVRows))
	r.URL.RawQuery = values.Encode()
	for {
		q, found, err := l.read(r)
		if _, isInvalid := errors.AsType[*list.InvalidError](err); isInvalid {
			return page.Problem{Status: http.StatusBadRequest}
		}
		if err != nil {
			return page.Failed("export "+l.Path, err)
		}
		for _, item := range found.Items {
			file.Row(item)
		}
		if found.Next == "" {
			break
		}
		values.Set("after", found.Next)
		if r.URL.RawQuery = values.Encode(); file.Ends() {
			next = after(l.Renderer.Path(l.Path)+".csv", list.Values(q), found.Next)
			break
		}
	}
	file.Send(w, "tidegate-"+l.File+".csv", next)
	return nil
}

// Caller shows the caller of a row: the name of its record, or else its id, and its plan. A
// caller that proved nothing has no id.
func Caller(r *page.Renderer, id, name, plan string) templ.Component {
	caller := templates.Link(page.Clip(name, page.MaxName), r.Path("/keys/"+id))
	switch {
	case id == "":
		caller = templates.Text("unverified")
	case name == "" && app.IsID(id):
		caller = templates.Link(id, r.Path("/callers/"+id))
	case name == "":
		caller = templates.Text(id)
	}
	return templates.Parts(caller, templates.Soft(page.Clip(plan, page.MaxName)))
}

// ForEditors shows a component to people who may make changes.
func ForEditors(c templ.Component) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		if !auth.From(ctx).CanEdit() {
			return nil
		}
		return c.Render(ctx, w)
	})
}
