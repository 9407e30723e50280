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
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
	"tidegate/web/templates"
)

const (
	denialsPerPage = 50
	maxFilterText  = 200
	minuteInput    = "2006-01-02T15:04" // form of a datetime-local input
)

// causeTexts name the causes in lists.
var causeTexts = map[cause.Cause]string{
	cause.Missing: "No credential", cause.Malformed: "Malformed credential", cause.Unknown: "Unknown key",
	cause.Revoked: "Revoked key", cause.Expired: "Expired", cause.OldSecret: "Old secret",
	cause.Address: "Refused address", cause.Access: "No access",
	cause.Limit: "Over limit", cause.Ban: "Banned", cause.Unavailable: "Valkey unavailable",
}

// recentDenials is how many of the latest denials Recent lists.
const recentDenials = 10

// Summary is what the page of a key or caller says of its denials of the last 24 hours.
type Summary struct {
	Rows    []templates.DenialRow // the latest, newest first
	Refused []templates.Figure    // its refused calls by cause
	All     string                // address of all of them
}

// Recent returns the summary of a key or caller.
func (d *Pages) Recent(ctx context.Context, id string) (Summary, error) {
	now := time.Now()
	from, to := now.Add(-denylog.Kept), now.Add(time.Minute)
	s := Summary{All: page.Address(d.Path("/denials"), url.Values{"key": {id}})}
	list, err := d.usage.Denials(ctx,
		denylog.Query{Subject: id, From: from, To: to, Count: recentDenials})
	if err != nil {
		return s, err
	}
	if s.Rows, err = d.denialRows(ctx, list.Denials); err != nil {
		return s, err
	}
	counted, err := d.usage.Refusals(ctx, id, from, to, time.Minute)
	s.Refused = d.refusalFigures(counted, id)
	return s, err
}

// OfGroup returns the latest denials of the keys of a group, and the address of all.
func (d *Pages) OfGroup(ctx context.Context, name string) ([]templates.DenialRow, string, error) {
	now, all := time.Now(), page.Address(d.Path("/denials"), url.Values{"group": {name}})
	list, err := d.usage.Denials(ctx, denylog.Query{Group: name, From: now.Add(-denylog.Kept),
		To: now.Add(time.Minute), Count: recentDenials})
	if err != nil {
		return nil, all, err
	}
	rows, err := d.denialRows(ctx, list.Denials)
	return rows, all, err
}

// RefusalWords says what refused credentials were.
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

// denialFilter is what the page was asked for. problem says what is wrong with it.
type denialFilter struct {
	denylog.Query
	from, to string // as given
	problem  string
}

// readDenialFilter reads a filter; without times it means the last 24 hours.
func readDenialFilter(r *http.Request, now time.Time) denialFilter {
	q := r.URL.Query()
	f := denialFilter{from: q.Get("from"), to: q.Get("to")}
	f.Subject, f.Plan, f.Rule = strings.TrimSpace(q.Get("key")), q.Get("plan"), q.Get("rule")
	f.Limit, f.After, f.Count = q.Get("limit"), q.Get("after"), denialsPerPage
	f.Group, f.Cause = strings.TrimSpace(q.Get("group")), cause.Named(q.Get("cause"))
	oldest, newest := now.Add(-denylog.Kept), now.Add(time.Minute)
	var fromOK, toOK bool
	f.From, fromOK = instantOr(f.from, oldest)
	f.To, toOK = instantOr(f.to, newest)
	switch {
	case len(f.Subject) > 64 || f.Subject != "" && !app.IsID(f.Subject):
		f.problem = "Key: enter an id of up to 64 letters and digits."
	case max(len(f.Plan), len(f.Group), len(f.Rule), len(f.Limit)) > maxFilterText:
		f.problem = "Plan, group, rule and limit: at most 200 characters."
	case q.Get("cause") != "" && f.Cause == 0:
		f.problem = "Cause: choose one from the list."
	case !fromOK || !toOK:
		f.problem = "From and to: enter a date and a time."
	case !f.From.Before(f.To) || !f.To.After(oldest):
		f.problem = "From: must be before to, within 24 hours."
	}
	if f.From.Before(oldest) {
		f.From = oldest
	}
	if f.To.After(newest) {
		f.To = newest
	}
	return f
}

// instantOr reads what a datetime-local input or an address has, in UTC.
func instantOr(text string, otherwise time.Time) (time.Time, bool) {
	if text == "" {
		return otherwise, true
	}
	t, err := page.ParseInstant(text)
	if err != nil {
		return otherwise, false
	}
	return t.UTC(), true
}

func (f denialFilter) values() url.Values {
	return url.Values{"key": {f.Subject}, "plan": {f.Plan}, "group": {f.Group}, "rule": {f.Rule},
		"limit": {f.Limit},
		"cause": {f.Cause.String()}, "from": {f.from}, "to": {f.to}}
}

func (d *Pages) showDenials(w http.ResponseWriter, r *http.Request) {
	f := readDenialFilter(r, time.Now())
	path := d.Path("/denials")
	query := f.values()
	query.Set("after", f.After)
	p := templates.DenialsPage{
		Page: d.Page(r, "Denials"), Live: d.Live(r, path, query, time.Now()), Filter: f.view(path),
		Empty: templates.Empty{Heading: "No denials", Advice: "No denied call matches in this period."},
	}
	if f.problem != "" {
		d.Render(w, r, http.StatusUnprocessableEntity, templates.Denials(p))
		return
	}
	list, err := d.usage.Denials(r.Context(), f.Query)
	if errors.Is(err, denylog.ErrCursor) {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	if err == nil {
		p.Rows, err = d.denialRows(r.Context(), list.Denials)
	}
	if err == nil {
		err = d.addRefusals(r.Context(), &p, f)
	}
	if err != nil {
		d.FailStore(w, r, "read denials", err)
		return
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
	d.RenderLive(w, r, templates.DenialsLive(p), templates.Denials(p))
}

func (f denialFilter) view(path string) templates.DenialsFilter {
	v := templates.DenialsFilter{
		Action: path, Key: page.Clip(f.Subject, 64), Plan: page.Clip(f.Plan, maxFilterText),
		Group: page.Clip(f.Group, maxFilterText),
		Rule:  page.Clip(f.Rule, maxFilterText), Limit: page.Clip(f.Limit, maxFilterText),
		Cause: f.Cause.String(), Causes: []templates.Option{{Text: "all"}}, Problem: f.problem,
	}
	for _, c := range cause.All() {
		v.Causes = append(v.Causes, templates.Option{Value: c.String(), Text: causeTexts[c]})
	}
	if f.from != "" {
		v.From = f.From.Format(minuteInput)
	}
	if f.to != "" {
		v.To = f.To.Format(minuteInput)
	}
	if page.Address("", f.values()) != "" {
		v.Clear = path
	}
	return v
}

// addRefusals adds the refused credentials of the period, and what the log leaves out.
func (d *Pages) addRefusals(ctx context.Context, p *templates.DenialsPage, f denialFilter) error {
	counted, err := d.usage.Refusals(ctx, f.Subject, f.From, f.To, time.Minute)
	if err != nil {
		return err
	}
	p.Refused = d.refusalFigures(counted, f.Subject)
	if counted.Unlogged > 0 {
		p.Notes = append(p.Notes, page.Number(counted.Unlogged)+" more denials of this period are counted, "+
			"but not listed: there were too many.")
	}
	return nil
}

// refusalFigures lists the causes that there were. Those that the log may list are links.
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

func (d *Pages) denialRows(ctx context.Context,
	list []denylog.Entry) ([]templates.DenialRow, error) {
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
	filter := func(name, value string) templates.Choice {
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
		row.Caller = "not verified"
	case app.IsID(l.Subject):
		row.Address = d.Path("/callers/" + l.Subject)
	}
	if l.Limit != "" {
		row.Limit = filter("limit", l.Limit)
	}
	if l.Rule != "" {
		row.Rule = filter("rule", l.Rule)
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

// exportDenials sends the denials that the filter means, newest first, as far as one file
// goes; a Link header leads to the rest.
func (d *Pages) exportDenials(w http.ResponseWriter, r *http.Request) {
	f := readDenialFilter(r, time.Now())
	if f.problem != "" {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	t := page.NewTable("time", "caller", "plan", "group", "cause", "limit", "rule", "method", "path", "api",
		"stage", "network", "retry after ms", "request", "calls")
	for l, err := range d.usage.EveryDenial(r.Context(), f.Query) {
		if err != nil {
			d.FailStore(w, r, "export denials", err)
			return
		}
		t.Row(denialCells(&l)...)
		if t.Full() {
			f.to = l.Time.Add(time.Second).Format(time.RFC3339) // the rest begins within this second
			t.Send(w, "tidegate-denials.csv", page.Address(d.Path("/denials.csv"), f.values()))
			return
		}
	}
	t.Send(w, "tidegate-denials.csv", "")
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
	}
}
