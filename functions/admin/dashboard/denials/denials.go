// Package denials serves the pages of denied and refused calls, and describes denials for
// other pages: the latest ones of a key, caller or group. Package dashboard mounts it. It
// writes nothing.
package denials

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

// Pages serves the pages of denied and refused calls.
type Pages struct {
	*page.Renderer
	keys    *app.Registry
	records *records.Reader
}

// New returns the pages; r renders them.
func New(r *page.Renderer, keys *app.Registry, calls *records.Reader) *Pages {
	return &Pages{Renderer: r, keys: keys, records: calls}
}

// Routes returns the pages.
func (d *Pages) Routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /denials", Role: auth.Viewer, Handle: d.showDenials},
		{Pattern: "GET /denials.csv", Role: auth.Viewer, Handle: d.exportDenials, Deadline: auth.Slow},
	}
}

const (
	denialsPerPage = 50
	recentDenials  = 10  // latest denials that other pages list
	maxFilterText  = 200 // characters
)

func (d *Pages) showDenials(w http.ResponseWriter, r *http.Request) error {
	set, err := d.keys.Set(r.Context())
	if err != nil {
		return page.Failed("read policy", err)
	}
	f, err := readFilter(r, time.Now()).resolve(r.Context(), d.keys, set)
	if err != nil {
		return page.Failed("find key", err)
	}
	path := d.Path("/denials")
	query := f.values()
	query.Set("after", f.After)
	p := templates.DenialsPage{
		Page: d.Page(r, "Denials"), Live: d.Live(r, path, query, time.Now()),
		Empty: templates.Empty{Heading: "No denials", Advice: "No denied or refused call matches."},
	}
	p.Page.Chart = d.ChartScript()
	if f.problem != "" {
		p.Filter = f.view(path, set, nil)
		return d.Render(w, r, http.StatusUnprocessableEntity, templates.Denials(p))
	}
	if f.request != "" {
		err = d.addFound(r.Context(), &p, f, set)
	} else {
		err = d.addDenials(r.Context(), &p, f, set)
	}
	if errors.Is(err, records.ErrCursor) {
		return page.Problem{Status: http.StatusBadRequest}
	}
	if err != nil {
		return page.Failed("read denials", err)
	}
	return d.RenderLive(w, r, templates.DenialsLive(p), templates.Denials(p))
}

// addFound adds the one denial that a reference or the id of a request names.
func (d *Pages) addFound(ctx context.Context, p *templates.DenialsPage, f filter, set *policy.Set) error {
	p.Filter = f.view(d.Path("/denials"), set, nil)
	reference := ""
	if _, ok := records.ParseReference(f.request); ok {
		reference = f.request
	}
	found, err := app.FindDenial(ctx, d.records, reference, f.request)
	if errors.Is(err, records.ErrNotKept) {
		p.Empty = templates.Empty{Heading: "No denial found",
			Advice: "Denials are kept for 50 hours, with the ids of the first 20 calls of a caller, limit " +
				"and minute. The reference in the body of a 429 finds the others."}
		return nil
	}
	if err != nil {
		return err
	}
	p.Rows, err = d.denialRows(ctx, []records.Denial{found}, url.Values{})
	if err == nil && len(found.Requests) > 0 {
		p.Requests = found.Requests
		p.RequestsOf = callsInMinute(found.Calls)
		if n := int64(len(found.Requests)); n < found.Calls {
			p.RequestsOf += ", the ids of " + page.Number(n)
		}
	}
	return err
}

func callsInMinute(n int64) string {
	if n == 1 {
		return "1 call in this minute"
	}
	return page.Number(n) + " calls in this minute"
}

// addDenials adds a page of the list, the summary of the period on the first page, and the
// form, whose selects offer what was counted.
func (d *Pages) addDenials(ctx context.Context, p *templates.DenialsPage, f filter, set *policy.Set) error {
	list, err := d.records.Denials(ctx, f.DenialQuery)
	if err != nil {
		return err
	}
	if p.Rows, err = d.denialRows(ctx, list.Denials, f.values()); err != nil {
		return err
	}
	counted, err := d.counts(ctx, f)
	if err != nil {
		return err
	}
	p.Filter = f.view(d.Path("/denials"), set, counted)
	if f.After == "" && counted != nil {
		if p.Summary, err = d.summaryView(ctx, counted, f, p.Live.Seconds); err != nil {
			return err
		}
	}
	path, values := d.Path("/denials"), f.values()
	p.Export = page.Address(d.Path("/denials.csv"), values)
	if f.After != "" {
		p.First = page.Address(path, page.WithLive(values, p.Live.Seconds))
	}
	if list.Next != "" {
		p.Empty.Advice = "No match among the latest entries. The next page searches older ones."
		values.Set("after", list.Next)
		p.Next = page.Address(path, page.WithLive(values, p.Live.Seconds))
	}
	calls := int64(0)
	for _, l := range list.Denials {
		calls += l.Calls
	}
	p.Live.Summary = page.Number(calls) + " calls shown"
	return nil
}

// exportDenials sends the denials that match the filter as CSV, newest first. A full file
// has a Link header that leads to the next one.
func (d *Pages) exportDenials(w http.ResponseWriter, r *http.Request) error {
	set, err := d.keys.Set(r.Context())
	if err != nil {
		return page.Failed("read policy", err)
	}
	f, err := readFilter(r, time.Now()).resolve(r.Context(), d.keys, set)
	if err != nil {
		return page.Failed("find key", err)
	}
	if f.problem != "" || f.request != "" {
		return page.Problem{Status: http.StatusBadRequest}
	}
	t := page.NewTable("time", "caller", "name", "plan", "group", "cause", "limit", "reason", "route",
		"method", "path", "api", "stage", "network", "retry after ms", "calls", "reference")
	f.Count = records.MaxDenials
	next := ""
	for {
		list, err := d.records.Denials(r.Context(), f.DenialQuery)
		if errors.Is(err, records.ErrCursor) {
			return page.Problem{Status: http.StatusBadRequest}
		}
		if err != nil {
			return page.Failed("export denials", err)
		}
		known, err := app.Records(r.Context(), d.keys, set, list.Denials, callerOf)
		if err != nil {
			return page.Failed("find keys", err)
		}
		for i := range list.Denials {
			l := &list.Denials[i]
			t.Row(denialCells(l, known[l.Caller].Name)...)
		}
		if f.After = list.Next; f.After == "" {
			break
		}
		if t.Ends() {
			values := f.values()
			values.Set("after", f.After)
			next = page.Address(d.Path("/denials.csv"), values)
			break
		}
	}
	t.Send(w, "tidegate-denials.csv", next)
	return nil
}

func callerOf(l records.Denial) string { return l.Caller }

// neverPasses reports whether no retry passes, since the limit is below the call's cost.
func neverPasses(l *records.Denial) bool { return l.Cause == cause.Limit && l.RetryAfter == 0 }

func denialCells(l *records.Denial, name string) []string {
	network := ""
	if l.Network.IsValid() {
		network = l.Network.String()
	}
	wait := strconv.FormatInt(l.RetryAfter.Milliseconds(), 10)
	if neverPasses(l) {
		wait = "never"
	}
	return []string{
		l.Time.UTC().Format("2006-01-02T15:04:05.000Z"), l.Caller, name, l.Plan, l.Group, l.Cause.String(),
		l.Limit, l.Reason, l.Route, l.Method, l.Path, l.API, l.Stage, network, wait,
		strconv.FormatInt(l.Calls, 10), l.Reference(),
	}
}

// Summary describes the latest denials of a key or caller.
type Summary struct {
	Latest []records.Denial      // newest first
	Rows   []templates.DenialRow // of them
	All    string                // address of all denials
}

// Recent returns the summary of a key or caller.
func (d *Pages) Recent(ctx context.Context, id string) (Summary, error) {
	keep := url.Values{"key": {id}}
	s := Summary{All: page.Address(d.Path("/denials"), keep)}
	list, err := d.latest(ctx, records.DenialQuery{Caller: id})
	if err != nil {
		return s, err
	}
	s.Latest = list
	s.Rows, err = d.denialRows(ctx, list, keep)
	return s, err
}

// OfGroup returns the latest denials of the keys of a group, and the address of all.
func (d *Pages) OfGroup(
	ctx context.Context, name string,
) (rows []templates.DenialRow, all string, err error) {
	list, err := d.latest(ctx, records.DenialQuery{Group: name})
	if err != nil {
		return nil, "", err
	}
	keep := url.Values{"group": {name}}
	rows, err = d.denialRows(ctx, list, keep)
	return rows, page.Address(d.Path("/denials"), keep), err
}

// latest returns the latest denials of a query within the default period.
func (d *Pages) latest(ctx context.Context, q records.DenialQuery) ([]records.Denial, error) {
	g := records.Last(defaultSpan, 0, time.Now())
	q.From, q.To, q.Count = g.From, g.To.Add(aheadOfUs), recentDenials
	list, err := d.records.Denials(ctx, q)
	return list.Denials, err
}

const (
	defaultSpan = 24 * time.Hour
	// aheadOfUs is how far the clocks that date denials may be ahead of this function's.
	aheadOfUs = time.Minute
)
