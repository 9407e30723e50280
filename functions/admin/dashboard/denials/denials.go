// Package denials serves the pages of the denial log, and describes denials for other
// pages: the latest ones of a key, caller or group, and refused credentials by cause.
// Package dashboard mounts it. It writes nothing.
package denials

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
	"tidegate/web/templates"
)

// Pages serves the pages of the denial log.
type Pages struct {
	*page.Renderer
	keys  *app.Registry
	usage *usage.Reader
}

// New returns the pages; r renders them.
func New(r *page.Renderer, keys *app.Registry, calls *usage.Reader) *Pages {
	return &Pages{Renderer: r, keys: keys, usage: calls}
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
	recentDenials  = 10 // latest denials that other pages list
	maxFilterText  = 200
)

// causeTexts name the causes in lists.
var causeTexts = map[cause.Cause]string{
	cause.Missing: "No credential", cause.Malformed: "Malformed credential", cause.Unknown: "Unknown key",
	cause.Revoked: "Revoked key", cause.Expired: "Expired key", cause.OldSecret: "Previous secret",
	cause.Address: "Refused address", cause.Access: "No access",
	cause.Limit: "Over limit", cause.Ban: "Banned", cause.Unavailable: "Unavailable",
}

func (d *Pages) showDenials(w http.ResponseWriter, r *http.Request) error {
	f, err := readFilter(r, time.Now()).resolve(r.Context(), d.keys)
	if err != nil {
		return page.Failed("find key", err)
	}
	path := d.Path("/denials")
	query := f.values()
	query.Set("after", f.After)
	p := templates.DenialsPage{
		Page: d.Page(r, "Denials"), Live: d.Live(r, path, query, time.Now()), Filter: f.view(path),
		Empty: templates.Empty{Heading: "No denials", Advice: "No denied call matches in this period."},
	}
	if f.problem != "" {
		return d.Render(w, r, http.StatusUnprocessableEntity, templates.Denials(p))
	}
	list, err := d.usage.Denials(r.Context(), f.Query)
	if errors.Is(err, denylog.ErrCursor) {
		return page.Problem{Status: http.StatusBadRequest}
	}
	if err == nil {
		p.Rows, err = d.denialRows(r.Context(), list.Denials)
	}
	if err == nil {
		err = d.addRefusals(r.Context(), &p, f)
	}
	if err != nil {
		return page.Failed("read denials", err)
	}
	if list.Unreadable > 0 {
		p.Notes = append(p.Notes, "Entries that cannot be read, skipped: "+page.Number(list.Unreadable)+".")
	}
	values := f.values()
	p.Export = page.Address(d.Path("/denials.csv"), values)
	if f.After != "" {
		p.First = page.Address(path, page.WithLive(values, p.Live.Seconds))
	}
	if list.Next != "" {
		p.Empty.Advice = "No match among the latest entries. The next page searches older ones."
		values.Set("after", list.Next)
		p.Next = page.Address(path, page.WithLive(values, p.Live.Seconds))
	}
	p.Live.Summary = page.Number(int64(len(p.Rows))) + " denials shown"
	return d.RenderLive(w, r, templates.DenialsLive(p), templates.Denials(p))
}

// addRefusals adds the refused credentials of the period, and the number of denials that
// the log does not list.
func (d *Pages) addRefusals(ctx context.Context, p *templates.DenialsPage, f filter) error {
	counted, err := d.usage.Refusals(ctx, f.Subject, f.From, f.To, time.Minute)
	if err != nil {
		return err
	}
	p.Refused = d.refusalFigures(counted, f.Subject)
	if counted.Unlogged > 0 {
		p.Notes = append(p.Notes, page.Number(counted.Unlogged)+" more denials in this period were counted "+
			"but not logged.")
	}
	return nil
}

// refusalFigures returns the number of refused calls for each cause that occurred. Causes
// that the log lists are links.
func (d *Pages) refusalFigures(counted usage.Refusals, key string) []templates.Figure {
	var all []templates.Figure
	for _, c := range cause.All() {
		if n := counted.Of(c); n > 0 {
			f := templates.Figure{Name: causeTexts[c], Value: page.Number(n)}
			if c > cause.Unknown {
				f.Address = page.Address(d.Path("/denials"), url.Values{"key": {key}, "cause": {c.String()}})
			}
			all = append(all, f)
		}
	}
	return all
}

func (d *Pages) denialRows(ctx context.Context, list []denylog.Entry) ([]templates.DenialRow, error) {
	known, err := app.Records(ctx, d.keys, nil, list, func(l denylog.Entry) string { return l.Subject })
	if err != nil {
		return nil, err
	}
	rows := make([]templates.DenialRow, len(list))
	for i := range list {
		rows[i] = d.denialRow(&list[i], known[list[i].Subject])
	}
	return rows, nil
}

func (d *Pages) denialRow(l *denylog.Entry, k policy.Key) templates.DenialRow {
	link := func(name, value string) templates.Choice {
		return templates.Choice{Text: page.Clip(value, page.MaxName),
			Address: page.Address(d.Path("/denials"), url.Values{name: {value}})}
	}
	row := templates.DenialRow{
		At: page.Instant(l.Time), Caller: l.Subject, Plan: page.Clip(l.Plan, page.MaxName),
		Cause: causeTexts[l.Cause], Call: l.Method + " " + page.Clip(l.Path, maxFilterText),
		API: l.API + "/" + l.Stage, Request: page.Clip(l.Request, 64), RetryAfter: "–", Network: "–",
	}
	switch {
	case k.ID != "":
		row.Caller, row.Address = page.Clip(k.Name, page.MaxName), d.Path("/keys/"+k.ID)
	case l.Subject == "":
		row.Caller = "unverified"
	case app.IsID(l.Subject):
		row.Address = d.Path("/callers/" + l.Subject)
	}
	row.Reason = l.Reason
	if l.Method == "" { // a caller that proved no key: nothing that it sent is logged
		row.Call, row.API = "–", ""
	}
	if l.Limit != "" {
		row.Limit = link("limit", l.Limit)
		limit, scope := app.LimitWords(l.Limit)
		row.Limit.Text = page.Clip(limit, page.MaxName)
		if scope != policy.ScopeKey {
			row.Scope = page.Clip(app.ScopeWords(scope, "", l.Group, l.Rule), 2*page.MaxName)
		}
	}
	if l.Rule != "" {
		row.Rule = link("rule", l.Rule)
	}
	if l.Calls > 1 {
		row.More = "and " + page.Number(l.Calls-1) + " more in this minute"
	}
	if l.Network.IsValid() {
		row.Network = l.Network.String()
	}
	if l.RetryAfter > 0 {
		row.RetryAfter = page.Span(l.RetryAfter)
	}
	return row
}

// exportDenials sends the denials that match the filter as CSV, newest first. A full file
// has a Link header that leads to the next one.
func (d *Pages) exportDenials(w http.ResponseWriter, r *http.Request) error {
	f, err := readFilter(r, time.Now()).resolve(r.Context(), d.keys)
	if err != nil {
		return page.Failed("find key", err)
	}
	if f.problem != "" {
		return page.Problem{Status: http.StatusBadRequest}
	}
	t := page.NewTable("time", "caller", "plan", "group", "cause", "limit", "rule", "method", "path", "api",
		"stage", "network", "retry after ms", "request", "calls", "reason")
	for l, err := range d.usage.EveryDenial(r.Context(), f.Query) {
		if err != nil {
			return page.Failed("export denials", err)
		}
		t.Row(denialCells(&l)...)
		if t.Full() {
			f.to = l.Time.Add(time.Second).Format(time.RFC3339) // the next file begins within this second
			t.Send(w, "tidegate-denials.csv", page.Address(d.Path("/denials.csv"), f.values()))
			return nil
		}
	}
	t.Send(w, "tidegate-denials.csv", "")
	return nil
}

func denialCells(l *denylog.Entry) []string {
	network := ""
	if l.Network.IsValid() {
		network = l.Network.String()
	}
	return []string{
		l.Time.UTC().Format("2006-01-02T15:04:05.000Z"), l.Subject, l.Plan, l.Group, l.Cause.String(),
		l.Limit, l.Rule, l.Method, l.Path, l.API, l.Stage, network,
		strconv.FormatInt(l.RetryAfter.Milliseconds(), 10), l.Request, strconv.FormatInt(l.Calls, 10),
		l.Reason,
	}
}

// Summary describes the denials of a key or caller in the last 24 hours.
type Summary struct {
	Log     denylog.Page          // all that are logged
	Counted usage.Refusals        // and the number of those that are not
	Rows    []templates.DenialRow // the latest, newest first
	Refused []templates.Figure    // number of refused calls by cause
	All     string                // address of all denials
}

// Recent returns the summary of a key or caller.
func (d *Pages) Recent(ctx context.Context, id string) (Summary, error) {
	s := Summary{All: page.Address(d.Path("/denials"), url.Values{"key": {id}})}
	oldest, newest := period(time.Now())
	var err error
	if s.Log, err = d.usage.DenialsOf(ctx, id, oldest, newest); err != nil {
		return s, err
	}
	if s.Rows, err = d.denialRows(ctx, s.Log.Denials[:min(recentDenials, len(s.Log.Denials))]); err != nil {
		return s, err
	}
	s.Counted, err = d.usage.Refusals(ctx, id, oldest, newest, time.Minute)
	s.Refused = d.refusalFigures(s.Counted, id)
	return s, err
}

// OfGroup returns the latest denials of the keys of a group, and the address of all.
func (d *Pages) OfGroup(
	ctx context.Context, name string,
) (rows []templates.DenialRow, all string, err error) {
	oldest, newest := period(time.Now())
	list, err := d.usage.Denials(ctx,
		denylog.Query{Group: name, From: oldest, To: newest, Count: recentDenials})
	if err != nil {
		return nil, "", err
	}
	rows, err = d.denialRows(ctx, list.Denials)
	return rows, page.Address(d.Path("/denials"), url.Values{"group": {name}}), err
}

// period returns the time range of the log. It ends 1 min after now, since the check
// function's clock, which dates the denials, may be ahead.
func period(now time.Time) (oldest, newest time.Time) {
	return now.Add(-denylog.Retention), now.Add(time.Minute)
}

// RefusalWords describes refused credentials by cause.
func RefusalWords(refused usage.Refusals) string {
	var words []string
	for _, c := range cause.All() {
		if n := refused.Of(c); n > 0 {
			words = append(words, page.Number(n)+" "+strings.ToLower(causeTexts[c]))
		}
	}
	if len(words) == 0 {
		return "credentials"
	}
	return strings.Join(words, ", ")
}
