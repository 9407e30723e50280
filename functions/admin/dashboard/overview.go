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

func (d *dashboard) showOverview(w http.ResponseWriter, r *http.Request) error {
	view, err := d.overviewPage(r)
	if err != nil {
		return page.Failed("read calls", err)
	}
	return d.RenderLive(w, r, templates.OverviewLive(view), templates.Overview(view))
}

func (d *dashboard) overviewPage(r *http.Request) (templates.OverviewPage, error) {
	ctx := r.Context()
	now := time.Now()
	home := d.Path("/")
	at := chart.ReadPeriod(r.URL.Query(), now)
	p := templates.OverviewPage{
		Page:       d.Page(r, "Overview"),
		Live:       d.Live(r, home, at.Values(), now),
		Range:      at.Range(home, page.LiveSeconds(r)),
		AllDenied:  d.Path("/keys?state=" + string(app.Blocked)),
		AllClosest: d.Path("/keys?state=" + string(app.Near)),
	}
	p.Page.Chart = d.ChartScript()
	series, err := d.Records.Total(ctx, at.Recorded())
	if err != nil {
		return p, err
	}
	set, err := d.Keys.Set(ctx)
	if err != nil {
		return p, err
	}
	p.Live.Outage = wording.Outage(set.Plans)
	p.Live.Counted = page.Instant(series.Counted)
	if series.Began.IsZero() {
		p.Lead = []templates.Phrase{{Text: "No call has reached this deployment yet."}}
		p.Steps, err = d.firstSteps(ctx, set)
		return p, err
	}
	active, err := d.activeFigure(ctx, at)
	if err != nil {
		return p, err
	}
	m, err := d.readMatter(ctx, at, set)
	if err != nil {
		return p, err
	}
	sum := series.Sum()
	p.Figures = d.figures(&series, active, at)
	p.Outage = outageText(&series)
	p.Lead = d.leadOf(&series, m, at)
	p.Attention, p.Closest, p.Busiest = d.attentionRows(r, m, at), m.closestRows(d, at), m.busyRows(d, at)
	p.Limits = d.limitRows(m.limits, at)
	p.Live.Summary = page.Number(sum.Calls()) + " calls, " + page.Number(sum.Denied) + " denied, " +
		page.Number(sum.Refused) + " refused"
	p.Chart = d.drawCalls(ctx, series, at, page.Address(home, page.WithLive(nil, p.Live.Seconds)),
		marked{policy: set.Version})
	return p, nil
}

// firstSteps leads to the first call that a limit denies.
func (d *dashboard) firstSteps(ctx context.Context, set *policy.Set) ([]templates.Step, error) {
	keys, err := d.Keys.Count(ctx, app.KeyFilter{})
	if err != nil {
		return nil, err
	}
	create := func(text, path string) templates.Choice {
		if !auth.From(ctx).CanEdit() {
			return templates.Choice{}
		}
		return templates.Choice{Text: text, Address: d.Path(path)}
	}
	var steps []templates.Step
	if len(set.Plans) == 0 {
		steps = append(steps, templates.Step{Text: "Create a plan",
			Advice: "A plan is a list of limits. Every key has one.",
			Action: create("New plan", "/policies/plans/new")})
	}
	steps = append(steps,
		templates.Step{Text: "Take a key", Advice: "There is none yet.",
			Action: create("New key", "/keys/new")},
		templates.Step{Text: "Call", Advice: "Send more calls than its plan allows.",
			Command: d.exampleCall(exampleWithKey)},
		templates.Step{Text: "Look",
			Advice: "The calls show here within two seconds. A denied one says why."})
	if keys > 0 {
		steps[len(steps)-3].Advice = "There is " + app.KeyCount(keys) + "."
		if keys > 1 {
			steps[len(steps)-3].Advice = "There are " + app.KeyCount(keys) + "."
		}
	}
	for i := range steps {
		steps[i].Text = strconv.Itoa(i+1) + ". " + steps[i].Text
	}
	return steps, nil
}

// activeFigure counts the callers of the present hour, or of the day for a longer period.
func (d *dashboard) activeFigure(ctx context.Context, at chart.Period) (templates.Figure, error) {
	day := at.To.Sub(at.From) > time.Hour
	n, _, err := d.Records.ActiveCount(ctx, day)
	f := templates.Figure{Name: "Callers", Value: page.Number(n), Note: "since the hour began",
		Address: d.Path("/keys?order=" + string(app.Today))}
	if day {
		f.Note = "since the day began, UTC"
	}
	return f, err
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
func (d *dashboard) figures(s *records.Series, active templates.Figure, at chart.Period) []templates.Figure {
	sum := s.Sum()
	count := func(n int64) string { return page.AtLeast(n, s.Incomplete()) }
	calls := templates.Figure{Name: "Calls", Value: count(sum.Calls()), Address: "#busiest"}
	if s.Began.After(s.From) {
		calls.Note = "since " + page.Instant(s.Began).Text
	}
	return []templates.Figure{
		calls,
		{Name: "Denied", Value: count(sum.Denied), Note: app.ShareWords(sum.Denied, sum.Calls()),
			Bad: sum.Denied > 0, Address: d.denialsAddress(at, cause.Limit.String())},
		{Name: "Refused", Value: count(sum.Refused), Note: refusalWords(s.ByKind()),
			Address: d.denialsAddress(at, "")},
		active,
		{Name: "In shadow", Value: count(sum.Shadow), Note: "would be denied"},
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
	return strings.Join(words, ", ")
}

// outageText says when calls of the period were decided without Valkey; empty if none were.
func outageText(s *records.Series) string {
	without := slices.DeleteFunc(slices.Clone(s.Points),
		func(p records.Point) bool { return p.Degraded == 0 })
	if len(without) == 0 {
		return ""
	}
	end := without[len(without)-1].Start.Add(s.Step)
	return "Valkey was unavailable between " + page.Instant(without[0].Start).Text + " and " +
		page.Instant(end).Text + ". Calls decided without it: " + page.AtLeast(s.Sum().Degraded, true) + "."
}

// leadOf says in a sentence how many calls were denied, and of whom.
func (d *dashboard) leadOf(s *records.Series, m *matter, at chart.Period) []templates.Phrase {
	sum := s.Sum()
	all, in := page.AtLeast(sum.Calls(), s.Incomplete()), at.In()
	switch {
	case sum.Calls() == 0:
		return []templates.Phrase{{Text: "No call " + in + "."}}
	case sum.Denied == 0:
		return []templates.Phrase{{Text: "No limit denied a call", Strong: true, After: " " + in + ". "},
			{Text: all + " calls were made."}}
	}
	words := []templates.Phrase{{Text: page.Number(sum.Denied) + " of " + all + " calls denied", Strong: true,
		After: " " + in + "."}}
	id, most := m.mostDenied()
	if most.Denied == 0 {
		return words
	}
	caller := d.callerOf(at, id, m.known[id])
	share := " Nearly all of them are of "
	switch percent := app.Percent(most.Denied, sum.Denied); {
	case percent < 50:
		share = " " + page.Number(most.Denied) + " of them, the most, are of "
	case percent < 90:
		share = " " + strconv.FormatInt(percent, 10) + " % of them are of "
	}
	words[0].After += share
	words = append(words, templates.Phrase{Text: caller.Name, Strong: true, Address: caller.Address})
	series := m.series[id]
	for _, k := range series.ByKind() {
		if k.Cause == cause.Limit {
			words[1].After = ", over "
			if k.Calls*10 < most.Denied*9 {
				words[1].After = ", mostly over "
			}
			words = append(words, templates.Phrase{Text: k.Limit, Strong: true})
			break
		}
	}
	last := &words[len(words)-1]
	if e := series.Episode(); e.Calls > 0 && e.Since.After(series.From) && s.Step <= 5*time.Minute {
		last.After = " since "
		return append(words, templates.Phrase{At: page.Instant(e.Since), After: "."})
	}
	last.After = "."
	return words
}

// limitRows returns the limits that denied calls.
func (d *dashboard) limitRows(all []records.KindCount, at chart.Period) []templates.TopRow {
	sum := int64(0)
	all = slices.DeleteFunc(all, func(k records.KindCount) bool { return k.Cause != cause.Limit })
	for _, k := range all {
		sum += k.Calls
	}
	var rows []templates.TopRow
	for _, k := range all[:min(len(all), maxRows)] {
		row := templates.TopRow{Text: page.Clip(k.Limit, page.MaxName), Calls: page.Number(k.Calls),
			Share: app.ShareWords(k.Calls, sum)}
		if k.Plan != "" {
			row.Text += ", plan " + page.Clip(k.Plan, page.MaxName)
		}
		if to := d.denialsAddress(at, ""); to != "" {
			row.Address = page.Filtered(d.Path("/denials"), url.Values{}, "limit", k.Limit)
		}
		rows = append(rows, row)
	}
	return rows
}

// callerOf names a caller and links to its page, which shows the same period. k is its
// record, if there is one.
func (d *dashboard) callerOf(at chart.Period, id string, k policy.Key) templates.CallerName {
	switch {
	case k.ID != "":
		return templates.CallerName{Name: page.Clip(k.Name, page.MaxName),
			Plan:    cmp.Or(page.Clip(k.Plan, page.MaxName), string(k.Kind)),
			Address: page.Address(d.keyPath(k), at.Values())}
	case app.IsID(id):
		return templates.CallerName{Name: id, Plan: "no key",
			Address: page.Address(d.Path("/callers/"+id), at.Values())}
	}
	return templates.CallerName{Name: id}
}
