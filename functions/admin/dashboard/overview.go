package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/records"
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
	series, err := d.Records.Total(ctx, at.Recorded())
	if err != nil {
		return p, err
	}
	latency := time.Since(began)
	sum := series.Sum()
	active, err := d.activeFigure(ctx, at)
	if err != nil {
		return p, err
	}
	set, err := d.Keys.Set(ctx)
	if err != nil {
		return p, err
	}
	p.Live.Outage = wording.Outage(set.Plans)
	if p.Rankings, err = d.rankings(ctx, at, set); err != nil {
		return p, err
	}
	p.Figures = d.figures(&series, active, valkeyFigure(&series, latency), at)
	p.Live.Summary = page.Number(sum.Calls()) + " calls, " + page.Number(sum.Denied) + " denied, " +
		page.Number(sum.Refused) + " refused"
	p.Chart = d.drawCalls(ctx, series, at, page.Address(home, page.WithLive(nil, p.Live.Seconds)),
		marked{policy: set.Version})
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

// activeFigure counts the callers of the present hour, or of the day for a longer period.
func (d *dashboard) activeFigure(ctx context.Context, at chart.Period) (templates.Figure, error) {
	n, since, err := d.Records.ActiveCount(ctx, at.To.Sub(at.From) > time.Hour)
	return templates.Figure{Name: "Active callers", Value: page.Number(n),
		Note: "since " + page.Instant(since).Text, Now: true}, err
}

// denialsAddress returns the address of the denials of a period with a cause, empty for
// all; empty for a period whose denials are not kept, or not counted together.
func (d *dashboard) denialsAddress(at chart.Period, by string) string {
	if at.From.Before(time.Now().Add(-records.MinutesKept)) || at.To.Sub(at.From) > 25*time.Hour {
		return ""
	}
	values := url.Values{"cause": {by}, "from": {at.From.UTC().Format(time.RFC3339)},
		"to": {at.To.UTC().Format(time.RFC3339)}}
	return page.Address(d.Path("/denials"), values)
}

// figures returns the figures at the top of the page.
func (d *dashboard) figures(s *records.Series, active, valkey templates.Figure, at chart.Period,
) []templates.Figure {
	sum := s.Sum()
	count := func(n int64) string { return page.AtLeast(n, s.Incomplete()) }
	calls := templates.Figure{Name: "Calls", Value: count(sum.Calls()),
		Address: "#" + rankingTexts[records.Busiest].id}
	if s.Began.After(s.From) && !s.Began.IsZero() {
		calls.Note = "since " + page.Instant(s.Began).Text
	}
	return []templates.Figure{
		calls,
		{Name: "Denied", Value: count(sum.Denied), Note: app.ShareWords(sum.Denied, sum.Calls()) +
			", by a limit",
			Address: d.denialsAddress(at, cause.Limit.String())},
		{Name: "Refused", Value: count(sum.Refused), Note: refusalWords(s.ByKind()),
			Address: d.denialsAddress(at, "")},
		active,
		{Name: "In shadow", Value: count(sum.Shadow), Note: "allowed, would be denied"},
		valkey,
	}
}

// refusalWords describes refusals by cause: "3 revoked key, 1 no credential".
func refusalWords(all []records.KindCount) string {
	var words []string
	for _, k := range all {
		if k.Cause != cause.Limit && k.Cause != cause.Shadow {
			words = append(words, page.Number(k.Calls)+" "+strings.ToLower(app.CauseWords[k.Cause]))
		}
	}
	return cmp.Or(strings.Join(words, ", "), "for another cause")
}

// valkeyFigure says whether calls of the period were decided without Valkey, and when.
// latency is the time that Valkey took for one read just now.
func valkeyFigure(s *records.Series, latency time.Duration) templates.Figure {
	without := slices.DeleteFunc(slices.Clone(s.Points),
		func(p records.Point) bool { return p.Degraded == 0 })
	if len(without) == 0 {
		return templates.Figure{Name: "Valkey", Value: "healthy", Now: true,
			Note: strconv.FormatFloat(float64(latency.Microseconds())/1000, 'f', 1, 64) + " ms"}
	}
	end := without[len(without)-1].Start.Add(s.Step)
	first, last := page.Instant(without[0].Start), page.Instant(end)
	return templates.Figure{Name: "Valkey", Value: "was unavailable", Bad: true,
		Note: "calls decided without it: " + page.AtLeast(s.Sum().Degraded, true) + ", between " +
			first.Text + " and " + last.Text}
}

// rankingTexts name the rankings.
var rankingTexts = map[records.Order]struct{ id, heading string }{
	records.Busiest: {"busiest", "Busiest"}, records.MostDenied: {"most-denied", "Most denied"},
}

// rankings returns the rankings of callers, the most denied first. The name of a caller
// without a record is its id.
func (d *dashboard) rankings(ctx context.Context, at chart.Period, set *policy.Set) (
	[]templates.Ranking, error) {
	orders := []records.Order{records.MostDenied, records.Busiest}
	var all []records.Ranked
	ranked := map[records.Order][]records.Ranked{}
	for _, o := range orders {
		found, err := d.Records.Rank(ctx, at.Recorded(), o, topCount)
		if err != nil {
			return nil, err
		}
		ranked[o], all = found, append(all, found...)
	}
	known, err := app.Records(ctx, d.Keys, set, all, func(t records.Ranked) string { return t.ID })
	if err != nil {
		return nil, err
	}
	views := make([]templates.Ranking, len(orders))
	for i, o := range orders {
		v := templates.Ranking{ID: rankingTexts[o].id, Heading: rankingTexts[o].heading}
		for _, t := range ranked[o] {
			v.Rows = append(v.Rows, d.talkerRow(at, t, known[t.ID]))
			v.Shadow = v.Shadow || t.Shadow > 0
		}
		views[i] = v
	}
	return views, nil
}

func (d *dashboard) talkerRow(at chart.Period, t records.Ranked, k policy.Key) templates.TalkerRow {
	row := templates.TalkerRow{Name: t.ID, Calls: page.Number(t.Calls()), Denied: page.Number(t.Denied),
		Share: app.ShareWords(t.Denied, t.Calls()), Refused: page.Number(t.Refused),
		Shadow: page.Number(t.Shadow)}
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
