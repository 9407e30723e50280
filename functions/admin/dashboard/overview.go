package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/denials"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
	"tidegate/web/templates"
)

const topCount = 10 // callers of a ranking

func (d *dashboard) showOverview(w http.ResponseWriter, r *http.Request) error {
	view, err := d.overviewPage(r)
	if err != nil {
		return page.Failed("read calls", err)
	}
	d.Remember(w, r)
	return d.RenderLive(w, r, templates.OverviewLive(view), templates.Overview(view))
}

func (d *dashboard) overviewPage(r *http.Request) (templates.OverviewPage, error) {
	ctx := r.Context()
	now := time.Now()
	home := d.Path("/")
	at := chart.ReadPeriod(page.View(r), now)
	p := templates.OverviewPage{
		Page:  d.Page(r, "Overview"),
		Live:  d.Live(r, home, at.Values(), now),
		Range: at.Range(home, page.LiveSeconds(r)),
	}
	p.Page.Chart = d.ChartScript()
	began := time.Now()
	points, err := d.Usage.Overview(ctx, at.From, at.To, at.ByMinute())
	if err != nil {
		return p, err
	}
	latency := time.Since(began)
	sum := usage.Sum(points)
	active, err := d.activeFigure(ctx, at, now)
	if err != nil {
		return p, err
	}
	refused, err := d.Usage.Refusals(ctx, "", at.From, at.To, at.ByMinute())
	if err != nil {
		return p, err
	}
	orders := []usage.Order{usage.Busiest, usage.MostDenied}
	if sum.ShadowDenied > 0 {
		orders = append(orders, usage.WouldDeny)
	}
	ranked, err := d.Usage.Rank(ctx, at.From, at.To, at.ByMinute(), topCount, orders...)
	if err != nil {
		return p, err
	}
	set, err := d.Keys.Set(ctx)
	if err != nil {
		return p, err
	}
	p.Live.Outage = wording.Outage(set.Plans)
	if p.Rankings, err = d.rankings(ctx, at, set, orders, ranked); err != nil {
		return p, err
	}
	p.Figures = d.figures(sum, refused, active, valkeyFigure(points, at.ByMinute(), latency),
		d.denialsAddress(at, now, ""), d.denialsAddress(at, now, denylog.AnyTrial))
	p.Live.Summary = page.Number(sum.Calls()) + " calls, " + page.Number(sum.Denied) + " blocked"
	calls := chart.TimeSeries{Step: at.ByMinute(),
		SelectIn: page.Address(home, page.WithLive(nil, p.Live.Seconds))}
	if at.Step < calls.Step {
		calls.Note = "Totals are counted by the minute. Key pages have shorter steps."
	}
	p.Chart = d.drawCalls(ctx, calls, at, points, marked{policy: set.Version})
	if sum.Calls() == 0 {
		p.Empty, err = d.firstSteps(ctx, set)
	}
	return p, err
}

// firstSteps leads to the first call that a chart shows.
func (d *dashboard) firstSteps(ctx context.Context, set *policy.Set) (*templates.Empty, error) {
	keys, err := d.Keys.Count(ctx, app.KeyFilter{})
	if err != nil {
		return nil, err
	}
	step := func(text, path, what string, n int64) templates.Step {
		s := templates.Step{
			Choice: templates.Choice{Text: "An editor creates " + text}, Done: n > 0,
			Found: what + ": " + page.Number(n),
		}
		if auth.From(ctx).CanEdit() {
			s.Choice = templates.Choice{Text: "Create " + text, Address: d.Path(path)}
		}
		return s
	}
	return &templates.Empty{
		Heading: "No requests in this period",
		Steps: []templates.Step{
			step("a plan", "/policies/plans/new", "plans", int64(len(set.Plans))),
			step("a key", "/keys/new", "keys", keys),
			{Choice: templates.Choice{Text: "Send a call. It shows here within seconds."}},
		},
		Command: d.exampleCall(exampleWithKey),
	}, nil
}

// activeFigure counts the callers of a period that ends now, within the last 24 hours. For
// other periods it counts those of the last 24 hours, and says so: of each caller only the
// last call's time is known.
func (d *dashboard) activeFigure(ctx context.Context, at chart.Period, now time.Time) (
	templates.Figure, error,
) {
	since, note := at.From, at.Words()
	if now.Sub(at.To) > time.Minute || now.Sub(at.From) > usage.MinutesKept {
		since, note = now.Add(-usage.MinutesKept), "last 24 hours, whatever the range"
	}
	n, err := d.Usage.ActiveCount(ctx, since, now)
	return templates.Figure{Name: "Active callers", Value: page.Number(n), Note: note}, err
}

// denialsAddress returns the address of the denials of a period with a cause, empty for
// all. For a longer period than the log keeps, it returns that of the whole log.
func (d *dashboard) denialsAddress(at chart.Period, now time.Time, cause string) string {
	values := url.Values{"cause": {cause}}
	if at.From.After(now.Add(-denylog.Retention)) {
		values.Set("from", at.From.UTC().Format(time.RFC3339))
	}
	if now.Sub(at.To) > time.Minute {
		values.Set("to", at.To.UTC().Format(time.RFC3339))
	}
	return page.Address(d.Path("/denials"), values)
}

// figures returns the figures at the top of the page. denied is the address of the
// denials, onTrial that of what limits in shadow would have denied.
func (d *dashboard) figures(sum usage.Counts, refused usage.Refusals, active, valkey templates.Figure,
	denied, onTrial string) []templates.Figure {
	share := "0 %"
	if sum.Denied > 0 {
		share = page.Number(app.Percent(sum.Denied, sum.Calls())) + " %"
	}
	would := templates.Figure{Name: "Would block", Value: page.Number(sum.ShadowDenied),
		Note: "by limits in shadow"}
	if sum.ShadowDenied > 0 {
		would.Address = onTrial
	}
	return []templates.Figure{
		{Name: "Requests", Value: page.Number(sum.Calls()), Address: "#" + rankingTexts[usage.Busiest].id},
		{Name: "Blocked", Value: page.Number(sum.Denied), Note: share, Address: denied},
		{Name: "Refused", Value: page.Number(refused.Sum()), Note: denials.RefusalWords(refused),
			Address: denied},
		active, would, valkey,
	}
}

// valkeyFigure says whether calls of the period were decided without Valkey, and when.
// latency is the time that Valkey took for one read just now.
func valkeyFigure(points []usage.Point, step, latency time.Duration) templates.Figure {
	degraded := slices.DeleteFunc(slices.Clone(points), func(p usage.Point) bool { return p.Degraded == 0 })
	if len(degraded) == 0 {
		return templates.Figure{Name: "Valkey", Value: "healthy", Now: true,
			Note: strconv.FormatFloat(float64(latency.Microseconds())/1000, 'f', 1, 64) + " ms"}
	}
	first, last := page.Instant(degraded[0].Start), page.Instant(degraded[len(degraded)-1].Start.Add(step))
	return templates.Figure{Name: "Valkey", Value: "was unavailable", Bad: true,
		Note: "calls decided without it: " + page.Number(usage.Sum(degraded).Degraded) + ", between " +
			first.Text + " and " + last.Text}
}

// rankingTexts name the rankings, and the column of each that the others lack.
var rankingTexts = map[usage.Order]struct{ id, heading, column string }{
	usage.Busiest:    {"busiest", "Busiest", "Blocked"},
	usage.MostDenied: {"most-blocked", "Most blocked", "Blocked"},
	usage.WouldDeny:  {"would-block", "Would be blocked", "Would block"},
}

// rankings returns the rankings of callers, the most blocked first. The name of a caller
// without a record is its id.
func (d *dashboard) rankings(ctx context.Context, at chart.Period, set *policy.Set, orders []usage.Order,
	ranked map[usage.Order][]usage.Talker) ([]templates.Ranking, error) {
	var all []usage.Talker
	for _, o := range orders {
		all = append(all, ranked[o]...)
	}
	records, err := app.Records(ctx, d.Keys, set, all, func(t usage.Talker) string { return t.ID })
	if err != nil {
		return nil, err
	}
	views := make([]templates.Ranking, 0, len(orders))
	for _, o := range []usage.Order{usage.MostDenied, usage.WouldDeny, usage.Busiest} {
		if !slices.Contains(orders, o) {
			continue
		}
		texts := rankingTexts[o]
		v := templates.Ranking{ID: texts.id, Heading: texts.heading, Column: texts.column}
		for _, t := range ranked[o] {
			counted := t.Denied
			if o == usage.WouldDeny {
				counted = t.ShadowDenied
			}
			row := d.talkerRow(at, t, records[t.ID])
			row.Counted = page.Number(counted)
			row.Share = page.Number(app.Percent(counted, t.Calls())) + " %"
			v.Rows = append(v.Rows, row)
		}
		views = append(views, v)
	}
	return views, nil
}

func (d *dashboard) talkerRow(at chart.Period, t usage.Talker, k policy.Key) templates.TalkerRow {
	row := templates.TalkerRow{Name: t.ID, Calls: page.Number(t.Calls())}
	switch {
	case k.ID != "":
		row.Name = page.Clip(k.Name, page.MaxName)
		row.Plan = cmp.Or(page.Clip(k.Plan, page.MaxName), string(k.Kind))
		row.Address = page.Address(d.keyPath(k), at.Values())
	case app.IsID(t.ID):
		row.Address = page.Address(d.Path("/callers/"+t.ID), at.Values())
	}
	return row
}
