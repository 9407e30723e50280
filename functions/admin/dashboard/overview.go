package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/usage"
	"tidegate/web/templates"
)

// ranges are the spans of time that the overview offers.
var ranges = []struct {
	name       string
	span, step time.Duration
}{
	{"5m", 5 * time.Minute, time.Minute},
	{"1h", time.Hour, time.Minute},
	{"24h", 24 * time.Hour, 15 * time.Minute},
	{"7d", 7 * 24 * time.Hour, time.Hour},
}

// usual is the range of an overview that asks for none.
var usual = ranges[1]

const (
	topCount = 10
	maxMarks = 50 // changes that the chart shows
)

// period is the time that the overview is about.
type period struct {
	from, to time.Time
	step     time.Duration
	name     string // of the range; empty for one of its own
}

// readPeriod takes a range, or a part of the chart that was selected.
func readPeriod(q url.Values, now time.Time) period {
	from, fromErr := time.Parse(time.RFC3339, q.Get("from"))
	to, toErr := time.Parse(time.RFC3339, q.Get("to"))
	if fromErr == nil && toErr == nil && from.Before(to) && to.Sub(from) <= 30*24*time.Hour &&
		now.Sub(from) < usage.HoursKept {
		return chosen(from, to, now)
	}
	for _, r := range ranges {
		if r.name == q.Get("range") {
			return period{now.Add(-r.span), now, r.step, r.name}
		}
	}
	return period{now.Add(-usual.span), now, usual.step, usual.name}
}

func chosen(from, to, now time.Time) period {
	p := period{from: from, to: to, step: time.Hour}
	if now.Sub(from) < usage.MinutesKept-time.Hour {
		for _, step := range []time.Duration{15 * time.Minute, 5 * time.Minute, time.Minute} {
			if to.Sub(from)/step <= 150 {
				p.step = step
			}
		}
	}
	if p.to.Sub(p.from) < p.step {
		p.to = p.from.Add(p.step)
	}
	return p
}

func (p period) values() url.Values {
	if p.name == "" {
		return url.Values{"from": {p.from.Format(time.RFC3339)}, "to": {p.to.Format(time.RFC3339)}}
	}
	if p.name == usual.name {
		return url.Values{}
	}
	return url.Values{"range": {p.name}}
}

func (d *dashboard) showOverview(w http.ResponseWriter, r *http.Request) {
	view, err := d.overviewPage(r)
	if err != nil {
		d.FailStore(w, r, "read calls", err)
		return
	}
	if page.IsRefresh(r) {
		d.Render(w, r, http.StatusOK, templates.OverviewLive(view))
		return
	}
	d.Render(w, r, http.StatusOK, templates.Overview(view))
}

func (d *dashboard) overviewPage(r *http.Request) (templates.OverviewPage, error) {
	ctx, now, home := r.Context(), time.Now(), d.Path("/")
	at := readPeriod(r.URL.Query(), now)
	p := templates.OverviewPage{Page: d.Page(r, "Overview"), Live: d.Live(r, home, at.values(), now)}
	p.Page.Chart = d.ChartScript()
	for _, choice := range ranges {
		chosen := period{name: choice.name}
		p.Ranges = append(p.Ranges, templates.Choice{
			Text:    choice.name,
			Address: page.Address(home, page.WithLive(chosen.values(), page.LiveSeconds(r.URL.Query()))),
			Current: choice.name == at.name,
		})
	}
	began := time.Now()
	points, err := d.Usage.Overview(ctx, at.from, at.to, at.step)
	if err != nil {
		return p, err
	}
	latency := time.Since(began)
	sum := usage.Sum(points)
	active, err := d.Usage.ActiveCount(ctx, maxTime(at.from, now.Add(-usage.MinutesKept+time.Minute)))
	if err != nil {
		return p, err
	}
	p.Figures = figures(sum, active, latency)
	p.Live.Summary = page.Number(sum.Calls()) + " calls, " + page.Number(sum.Denied) + " blocked"
	if p.Chart, err = d.overviewChart(ctx, at, points, home); err != nil {
		return p, err
	}
	if sum.Calls() == 0 {
		p.Empty = &templates.Empty{
			Heading: "No requests in this period", Advice: "Send two calls, a second apart:",
			Command: `curl -i -H "x-api-key: $KEY" "$API_URL"`,
		}
	}
	if p.Busiest, err = d.top(ctx, at, d.Usage.Busiest); err != nil {
		return p, err
	}
	p.Blocked, err = d.top(ctx, at, d.Usage.MostDenied)
	return p, err
}

// planOrKind says what a key is beside its name. Callers that others vouch for mostly
// have no plan of their own.
func planOrKind(k policy.Key) string {
	if k.Plan == "" {
		return string(k.Kind)
	}
	return page.Clip(k.Plan, page.MaxName)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// milliseconds writes a duration to a tenth of a millisecond.
func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 1, 64) + " ms"
}

func figures(sum usage.Counts, active int64, latency time.Duration) []templates.Figure {
	share := "0 %"
	if sum.Denied > 0 {
		share = page.Number(app.Percent(sum.Denied, sum.Calls())) + " %"
	}
	all := []templates.Figure{
		{Name: "Requests", Value: page.Number(sum.Calls())},
		{Name: "Blocked", Value: page.Number(sum.Denied), Note: share},
		{Name: "Active callers", Value: page.Number(active), Note: "last 24 h"},
		{Name: "Would block", Value: page.Number(sum.ShadowDenied + sum.CandidateDenied),
			Note: page.Number(sum.ShadowDenied) + " in shadow, " +
				page.Number(sum.CandidateDenied) + " by candidates"},
		{Name: "Valkey", Value: "healthy", Note: milliseconds(latency)},
	}
	if sum.Degraded > 0 {
		all[4] = templates.Figure{
			Name: "Valkey", Value: "was unavailable",
			Note: page.Number(sum.Degraded) + " calls decided without it",
			Bad:  true,
		}
	}
	return all
}

func (d *dashboard) overviewChart(ctx context.Context, at period, points []usage.Point,
	home string) (templates.TimeSeries, error) {
	s := chart.TimeSeries{
		ID: "calls", Title: "Calls", Step: at.step, Begin: at.from.Truncate(at.step), SelectIn: home,
	}
	if len(points) > 0 {
		s.Begin = points[0].Start
	}
	query := audit.Query{Subject: policyset.SetID, Since: s.Begin, Count: maxMarks, Heads: true}
	if at.name == "" {
		query.After = audit.Before(at.to.Add(at.step))
	}
	entries, err := d.Keys.Audit().List(ctx, query)
	if err != nil {
		return templates.TimeSeries{}, err
	}
	s.Marks = d.marks(entries.Entries)
	s.Allowed, s.Blocked = columns(points)
	return s.View(), nil
}

// top ranks callers; those without a record go by their id.
func (d *dashboard) top(ctx context.Context, at period,
	rank func(context.Context, time.Time, time.Time, int) ([]usage.Talker,
		error)) ([]templates.TalkerRow, error) {
	talkers, err := rank(ctx, at.from, at.to, topCount)
	if err != nil || len(talkers) == 0 {
		return nil, err
	}
	set, err := d.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(talkers))
	for i, t := range talkers {
		ids[i] = t.ID
	}
	keys, err := d.Keys.Many(ctx, set, ids)
	if err != nil {
		return nil, err
	}
	byID := map[string]policy.Key{}
	for _, k := range keys {
		byID[k.ID] = k
	}
	rows := make([]templates.TalkerRow, len(talkers))
	for i, t := range talkers {
		rows[i] = templates.TalkerRow{Name: t.ID, Calls: page.Number(t.Calls()),
			Blocked: page.Number(t.Denied), Share: page.Number(app.Percent(t.Denied,
				t.Calls())) + " %"}
		if idPattern.MatchString(t.ID) {
			rows[i].Address = d.Path("/callers/" + t.ID)
		}
		if k, known := byID[t.ID]; known {
			rows[i].Name, rows[i].Plan, rows[i].Address = page.Clip(k.Name, page.MaxName),
				planOrKind(k), d.keyPath(k)
		}
	}
	return rows, nil
}
