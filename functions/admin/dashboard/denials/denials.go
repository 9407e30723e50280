// Package denials serves the pages of the denial log, and describes denials for other
// pages: the latest ones of a key, caller or group, and refused credentials by cause.
// Package dashboard mounts it. It writes nothing.
package denials

import (
	"context"
	"errors"
	"iter"
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
	recentDenials  = 10  // latest denials that other pages list
	maxFilterText  = 200 // characters
)

// causeTexts name the causes in lists.
var causeTexts = map[cause.Cause]string{
	cause.Missing: "No credential", cause.Malformed: "Malformed credential", cause.Unknown: "Unknown key",
	cause.Revoked: "Revoked key", cause.Expired: "Expired key", cause.OldSecret: "Previous secret",
	cause.Address: "Refused address", cause.Access: "No access",
	cause.Limit: "Over limit", cause.Ban: "Banned", cause.Unavailable: "Unavailable",
	cause.Shadow: "Would block: shadow",
}

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
		Empty: templates.Empty{Heading: "No denials", Advice: "No denied call matches in this period."},
	}
	p.OnTrial, p.Logs = f.OnTrial, f.logs(path)
	if f.OnTrial {
		p.Empty = templates.Empty{Heading: "No limit would block",
			Advice: "No limit in shadow would have denied a matching call."}
	}
	p.Page.Chart = d.ChartScript()
	if f.problem != "" {
		p.Filter = f.view(path, set, denylog.Summary{})
		return d.Render(w, r, http.StatusUnprocessableEntity, templates.Denials(p))
	}
	list, err := d.usage.Denials(r.Context(), f.Query)
	if errors.Is(err, denylog.ErrCursor) {
		return page.Problem{Status: http.StatusBadRequest}
	}
	if err == nil {
		err = d.addDenials(r.Context(), &p, f, set, list)
	}
	if err != nil {
		return page.Failed("read denials", err)
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
	p.Live.Summary = page.Number(int64(len(list.Denials))) + " calls shown"
	return d.RenderLive(w, r, templates.DenialsLive(p), templates.Denials(p))
}

// addDenials adds the rows of a list, the summary of the period on the first page, and
// the form, whose selects offer what the summary found.
func (d *Pages) addDenials(
	ctx context.Context, p *templates.DenialsPage, f filter, set *policy.Set, list denylog.Page,
) error {
	var err error
	if p.Rows, err = d.denialRows(ctx, list.Denials, f.values()); err != nil {
		return err
	}
	if list.Unreadable > 0 {
		p.Notes = append(p.Notes, "Entries that cannot be read, skipped: "+page.Number(list.Unreadable)+".")
	}
	found, err := d.sum(ctx, f)
	if err != nil {
		return err
	}
	p.Filter = f.view(d.Path("/denials"), set, found)
	if f.After == "" {
		if p.Summary, err = d.summaryView(ctx, found, f, p.Live.Seconds); err != nil {
			return err
		}
	}
	return d.addRefusals(ctx, p, f)
}

// addRefusals adds the refused credentials of the period, and the number of calls that the
// log does not list.
func (d *Pages) addRefusals(ctx context.Context, p *templates.DenialsPage, f filter) error {
	counted, err := d.usage.Refusals(ctx, f.Subject, f.From, f.To, time.Minute)
	if err != nil {
		return err
	}
	unlogged, what := counted.Unlogged, " more denials"
	if f.OnTrial {
		unlogged, what = counted.UnloggedTrials, " more calls that would be denied"
	} else {
		p.Refused = d.refusalFigures(counted,
			url.Values{"key": {f.Subject}, "from": {f.from}, "to": {f.to}, "range": {f.span}})
	}
	if unlogged > 0 {
		p.Notes = append(p.Notes, page.Number(unlogged)+what+" in this period were counted but not logged.")
	}
	return nil
}

// refusalFigures returns the number of refused calls for each cause that occurred. Causes
// that the log lists are links, which keep the parameters in keep.
func (d *Pages) refusalFigures(counted usage.Refusals, keep url.Values) []templates.Figure {
	var all []templates.Figure
	for _, c := range cause.All() {
		if n := counted.Of(c); n > 0 {
			f := templates.Figure{Name: causeTexts[c], Value: page.Number(n)}
			if c > cause.Unknown {
				f.Address = page.Filtered(d.Path("/denials"), keep, "cause", c.String())
			}
			all = append(all, f)
		}
	}
	return all
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
	if f.problem != "" {
		return page.Problem{Status: http.StatusBadRequest}
	}
	t := page.NewTable("time", "caller", "name", "plan", "group", "cause", "limit", "route", "method",
		"path", "api", "stage", "network", "retry after ms", "request", "calls", "reason")
	next := ""
	for batch, err := range inBatches(d.usage.EveryDenial(r.Context(), f.Query)) {
		if err != nil {
			return page.Failed("export denials", err)
		}
		known, err := app.Records(r.Context(), d.keys, set, batch, subjectOf)
		if err != nil {
			return page.Failed("find keys", err)
		}
		for i := 0; i < len(batch) && !t.Full(); i++ {
			t.Row(denialCells(&batch[i], known[batch[i].Subject].Name)...)
			f.to = batch[i].Time.Add(time.Second).Format(time.RFC3339)
		}
		if t.Full() { // the next file begins within the second of the last row
			f.from, f.span = f.From.Format(time.RFC3339), ""
			next = page.Address(d.Path("/denials.csv"), f.values())
			break
		}
	}
	t.Send(w, "tidegate-denials.csv", next)
	return nil
}

func subjectOf(l denylog.Entry) string { return l.Subject }

// perBatch is how many entries are looked up together.
const perBatch = 500

// inBatches iterates over entries, perBatch at a time.
func inBatches(all iter.Seq2[denylog.Entry, error]) iter.Seq2[[]denylog.Entry, error] {
	return func(yield func([]denylog.Entry, error) bool) {
		var batch []denylog.Entry
		for l, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			if batch = append(batch, l); len(batch) == perBatch {
				if !yield(batch, nil) {
					return
				}
				batch = nil
			}
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}

func denialCells(l *denylog.Entry, name string) []string {
	network := ""
	if l.Network.IsValid() {
		network = l.Network.String()
	}
	wait := strconv.FormatInt(l.RetryAfter.Milliseconds(), 10)
	if l.NeverPasses() {
		wait = "never"
	}
	return []string{
		l.Time.UTC().Format("2006-01-02T15:04:05.000Z"), l.Subject, name, l.Plan, l.Group, l.Cause.String(),
		l.Limit, l.Rule, l.Method, l.Path, l.API, l.Stage, network,
		wait, l.Request, strconv.FormatInt(l.Calls, 10),
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
	OnTrial string                // address of the calls that limits in shadow would have denied
}

// Recent returns the summary of a key or caller.
func (d *Pages) Recent(ctx context.Context, id string) (Summary, error) {
	keep := url.Values{"key": {id}}
	s := Summary{All: page.Address(d.Path("/denials"), keep),
		OnTrial: page.Filtered(d.Path("/denials"), keep, "cause", denylog.AnyTrial)}
	oldest, newest := period(time.Now())
	var err error
	if s.Log, err = d.usage.DenialsOf(ctx, id, oldest, newest); err != nil {
		return s, err
	}
	latest := s.Log.Denials[:min(recentDenials, len(s.Log.Denials))]
	if s.Rows, err = d.denialRows(ctx, latest, keep); err != nil {
		return s, err
	}
	s.Counted, err = d.usage.Refusals(ctx, id, oldest, newest, time.Minute)
	s.Refused = d.refusalFigures(s.Counted, keep)
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
	keep := url.Values{"group": {name}}
	rows, err = d.denialRows(ctx, list.Denials, keep)
	return rows, page.Address(d.Path("/denials"), keep), err
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
