package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/denials"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
	"tidegate/web/templates"
)

const (
	topCount = 10
	maxMarks = 50 // changes that a chart shows
)

func (d *dashboard) showOverview(w http.ResponseWriter, r *http.Request) {
	view, err := d.overviewPage(r)
	if err != nil {
		d.FailStore(w, r, "read calls", err)
		return
	}
	d.Remember(w, r)
	d.RenderLive(w, r, templates.OverviewLive(view), templates.Overview(view))
}

func (d *dashboard) overviewPage(r *http.Request) (templates.OverviewPage, error) {
	ctx, now, home := r.Context(), time.Now(), d.Path("/")
	at := chart.ReadPeriod(page.View(r), now)
	p := templates.OverviewPage{
		Page: d.Page(r, "Overview"), Live: d.Live(r, home, at.Values(), now),
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
	active, err := d.Usage.ActiveCount(ctx, at.From, now)
	if err != nil {
		return p, err
	}
	refused, err := d.Usage.Refusals(ctx, "", at.From, at.To, at.ByMinute())
	if err != nil {
		return p, err
	}
	p.Figures = d.linked(d.figures(sum, refused, active, latency), at, now)
	p.Live.Summary = page.Number(sum.Calls()) + " calls, " + page.Number(sum.Denied) + " blocked"
	drawn := chart.TimeSeries{Step: at.ByMinute(),
		SelectIn: page.Address(home, page.WithLive(nil, p.Live.Seconds))}
	if at.Step < drawn.Step {
		drawn.Note = "Totals are counted by the minute; a key's page is finer."
	}
	if p.Chart, err = d.draw(ctx, drawn, at, points, policyset.SetID, nil); err != nil {
		return p, err
	}
	if sum.Calls() == 0 {
		p.Empty = &templates.Empty{
			Heading: "No requests in this period", Advice: "Send a call:",
			Command: `curl -i -H "x-api-key: $KEY" "$API_URL"`,
		}
	}
	if p.Busiest, err = d.top(ctx, at, d.Usage.Busiest); err != nil {
		return p, err
	}
	p.Blocked, err = d.top(ctx, at, d.Usage.MostDenied)
	return p, err
}

// planOrKind returns the text next to a key's name. Callers that others vouch for mostly
// have no plan of their own.
func planOrKind(k policy.Key) string {
	if k.Plan == "" {
		return string(k.Kind)
	}
	return page.Clip(k.Plan, page.MaxName)
}

// milliseconds writes a duration to a tenth of a millisecond.
func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 1, 64) + " ms"
}

// linked makes the figures of denials links to the part of the denial log that they
// count. Of longer periods the log has the last day.
func (d *dashboard) linked(all []templates.Figure, at chart.Period, now time.Time) []templates.Figure {
	values := url.Values{}
	if at.From.After(now.Add(-denylog.Kept)) {
		values.Set("from", at.From.UTC().Format(time.RFC3339))
	}
	if now.Sub(at.To) > time.Minute {
		values.Set("to", at.To.UTC().Format(time.RFC3339))
	}
	for i := range all {
		if name := all[i].Name; name == "Blocked" || name == "Refused" {
			all[i].Address = page.Address(d.Path("/denials"), values)
		}
	}
	return all
}

func (d *dashboard) figures(sum usage.Counts, refused usage.Refusals, active int64,
	latency time.Duration) []templates.Figure {
	share := "0 %"
	if sum.Denied > 0 {
		share = page.Number(app.Percent(sum.Denied, sum.Calls())) + " %"
	}
	all := []templates.Figure{
		{Name: "Requests", Value: page.Number(sum.Calls()), Address: d.Path("/keys?order=busiest")},
		{Name: "Blocked", Value: page.Number(sum.Denied), Note: share},
		{Name: "Refused", Value: page.Number(refused.Sum()), Note: denials.RefusalWords(refused)},
		{Name: "Active callers", Value: page.Number(active), Note: "last 24 h"},
		{Name: "Would block", Value: page.Number(sum.ShadowDenied + sum.CandidateDenied),
			Address: d.Path("/keys?state=shadow"),
			Note: page.Number(sum.ShadowDenied) + " in shadow, " +
				page.Number(sum.CandidateDenied) + " by candidates"},
		{Name: "Valkey", Value: "healthy", Note: milliseconds(latency)},
	}
	if sum.Degraded > 0 {
		all[5] = templates.Figure{
			Name: "Valkey", Value: "was unavailable",
			Note: page.Number(sum.Degraded) + " calls decided without it",
			Bad:  true,
		}
	}
	return all
}

// top ranks callers; those without a record go by their id.
func (d *dashboard) top(ctx context.Context, at chart.Period,
	rank func(context.Context, time.Time, time.Time, int) ([]usage.Talker,
		error)) ([]templates.TalkerRow, error) {
	talkers, err := rank(ctx, at.From, at.To, topCount)
	if err != nil {
		return nil, err
	}
	byID, err := app.Records(ctx, d.Keys, nil, talkers, func(t usage.Talker) string { return t.ID })
	if err != nil {
		return nil, err
	}
	rows := make([]templates.TalkerRow, len(talkers))
	for i, t := range talkers {
		rows[i] = templates.TalkerRow{Name: t.ID, Calls: page.Number(t.Calls()),
			Blocked: page.Number(t.Denied), Share: page.Number(app.Percent(t.Denied,
				t.Calls())) + " %"}
		if app.IsID(t.ID) {
			rows[i].Address = page.Address(d.Path("/callers/"+t.ID), at.Values())
		}
		if k, known := byID[t.ID]; known {
			rows[i].Name, rows[i].Plan, rows[i].Address = page.Clip(k.Name, page.MaxName),
				planOrKind(k), page.Address(d.keyPath(k), at.Values())
		}
	}
	return rows, nil
}
