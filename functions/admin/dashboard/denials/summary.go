package denials

import (
	"context"
	"slices"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/list"
	"tidegate/internal/cause"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

const (
	topCount = 5 // values of a ranking
	// maxSpan is the longest period that is counted by the minute.
	maxSpan = 26 * time.Hour
)

// stepFor returns the length of a bar in the chart of a period of up to a day.
func stepFor(span time.Duration) time.Duration {
	switch {
	case span <= 90*time.Minute:
		return time.Minute
	case span <= 8*time.Hour:
		return 5 * time.Minute
	}
	return 15 * time.Minute
}

// counted is what was counted of the calls that a filter selects.
type counted struct {
	records.Series

	limits []records.KindCount // what denied, or would have denied in shadow, by limit
	all    bool                // the filter selects all callers
}

// counts reads the counts of the calls that a query selects; nil if it has parts by which
// nothing is counted together, or a period that is not counted by the minute.
func (d *Pages) counts(ctx context.Context, q *app.DenialQuery) (*counted, error) {
	g, err := q.Span(time.Now())
	if err != nil || g.To.Sub(g.From) > maxSpan || q.Method != "" || q.Path != "" {
		return nil, nil //nolint:nilerr,nilnil // there are no such counts; the list answers an invalid period
	}
	g.Step = stepFor(g.To.Sub(g.From))
	byLimit := q.Plan != "" || q.Limit != ""
	if q.Group != "" || q.Key != "" && (q.Plan != "" || q.Route != "") || q.Route != "" && byLimit {
		return nil, nil //nolint:nilnil // there are no such counts
	}
	var c counted
	switch {
	case q.Key != "":
		c.Series, err = d.records.Caller(ctx, q.Key, g)
	case q.Route != "":
		c.Series, err = d.records.Route(ctx, q.Route, g)
	case byLimit:
		c.Series, err = d.records.Limits(ctx, g)
	default:
		c.all = true
		c.Series, err = d.records.Total(ctx, g)
	}
	if err != nil {
		return nil, err
	}
	c.narrow(q)
	c.limits = c.ByKind()
	if c.all && (q.Cause == "" || q.Cause == cause.Limit.String()) {
		byLimit, err := d.records.Limits(ctx, records.Range{From: g.From, To: g.To})
		if err != nil {
			return nil, err
		}
		c.limits = byLimit.ByKind()
	}
	return &c, nil
}

// narrow leaves what the filter's cause, plan and limit select.
func (c *counted) narrow(q *app.DenialQuery) {
	only := cause.Named(q.Cause)
	if only == 0 && q.Plan == "" && q.Limit == "" {
		return
	}
	for i := range c.Points {
		c.Points[i].Counts = records.Counts{}
	}
	for k, calls := range c.Kinds {
		if only != 0 && k.Cause != only || q.Plan != "" && k.Plan != q.Plan ||
			q.Limit != "" && k.Limit != q.Limit {
			delete(c.Kinds, k)
			continue
		}
		for i, n := range calls {
			switch k.Cause {
			case cause.Limit:
				c.Points[i].Denied += n
			case cause.Shadow:
				c.Points[i].Shadow += n
			default:
				c.Points[i].Refused += n
			}
		}
	}
}

// summaryView returns the chart, the figures and the rankings of what was counted. Every
// ranked value links to the list that the filter and the value select.
func (d *Pages) summaryView(ctx context.Context, c *counted, q *app.DenialQuery, live int) (
	*templates.DenialsSummary, error) {
	path, values, sum := d.Path("/denials"), list.Values(q), c.Sum()
	unbounded := list.Values(q)
	for _, name := range []string{"from", "to", "range"} {
		unbounded.Del(name)
	}
	v := &templates.DenialsSummary{Lead: leadOf(c, q), Figures: []templates.Figure{
		{Name: "Denied", Value: page.AtLeast(sum.Denied, c.Incomplete()), Note: "by a limit"},
		{Name: "Refused", Value: page.AtLeast(sum.Refused, c.Incomplete()), Note: "for another cause"},
	}}
	for _, k := range byCause(c.ByKind()) {
		v.Figures = append(v.Figures, templates.Figure{Name: app.CauseWords[k.Cause],
			Value: page.Number(k.Calls), Address: page.Filtered(path, values, "cause", k.Cause.String())})
	}
	if sum.Denied+sum.Refused+sum.Shadow == 0 {
		return v, nil
	}
	drawn := chart.TimeSeries{ID: "denied", Title: "Denied and refused calls", Series: c.Series,
		SelectIn: page.Address(path, page.WithLive(unbounded, live))}.View()
	v.Chart = &drawn
	v.Tops = []templates.Top{
		d.limitTop("Limits", cause.Limit, c.limits, q), d.limitTop("In shadow", cause.Shadow, c.limits, q)}
	if !c.all || q.Cause != "" {
		return v, nil
	}
	callers, err := d.callerTop(ctx, q)
	v.Tops = append(v.Tops, callers)
	return v, err
}

// leadOf says in a sentence how many calls were denied and refused, and whether one limit
// denied them.
func leadOf(c *counted, q *app.DenialQuery) []templates.Phrase {
	sum, in := c.Sum(), " in this range"
	switch q.Range {
	case "1h":
		in = " in the last hour"
	case "":
		if q.From.IsZero() && q.To.IsZero() {
			in = " in the last 24 hours"
		}
	case list.Today, list.Yesterday:
		in = " " + q.Range + ", UTC"
	}
	if sum.Denied+sum.Refused == 0 {
		return []templates.Phrase{{Text: "No call was denied or refused", Strong: true, After: in + "."}}
	}
	words := templates.Phrase{Strong: true, After: in + ".",
		Text: page.AtLeast(sum.Denied, c.Incomplete()) + " calls denied and " + page.Number(sum.Refused) +
			" refused"}
	if len(c.limits) > 0 && c.limits[0].Cause == cause.Limit && sum.Denied > 0 {
		top := c.limits[0]
		words.After = in + ", " + app.ShareWords(top.Calls, sum.Denied) + " of the denials by "
		by := templates.Phrase{Text: page.Clip(top.Limit, page.MaxName), Strong: true, After: "."}
		if top.Plan != "" {
			by.After = " of plan " + page.Clip(top.Plan, page.MaxName) + "."
		}
		return []templates.Phrase{words, by}
	}
	return []templates.Phrase{words}
}

// byCause adds up the refusals of each cause.
func byCause(all []records.KindCount) []records.KindCount {
	var sums []records.KindCount
	for _, k := range all {
		if k.Cause == cause.Limit || k.Cause == cause.Shadow {
			continue
		}
		i := slices.IndexFunc(sums, func(s records.KindCount) bool { return s.Cause == k.Cause })
		if i < 0 {
			i = len(sums)
			sums = append(sums, records.KindCount{Kind: records.Kind{Cause: k.Cause}})
		}
		sums[i].Calls += k.Calls
	}
	return sums
}

// limitTop ranks limits by the calls that they denied, or would have denied in shadow.
func (d *Pages) limitTop(heading string, by cause.Cause, all []records.KindCount,
	q *app.DenialQuery) templates.Top {
	top, whole := templates.Top{Heading: heading}, int64(0)
	calls, names := map[string]int64{}, []string(nil)
	for _, k := range all {
		if k.Cause == by && k.Limit != "" {
			if calls[k.Limit] == 0 {
				names = append(names, k.Limit)
			}
			calls[k.Limit] += k.Calls
			whole += k.Calls
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return int(calls[b] - calls[a]) })
	for _, name := range names[:min(len(names), topCount)] {
		row := templates.TopRow{Text: page.Clip(name, page.MaxName), Calls: page.Number(calls[name]),
			Share: app.ShareWords(calls[name], whole)}
		if by == cause.Limit {
			row.Address = page.Filtered(d.Path("/denials"), list.Values(q), "limit", name)
		}
		top.Rows = append(top.Rows, row)
	}
	return top
}

// callerTop ranks callers by their denied and refused calls.
func (d *Pages) callerTop(ctx context.Context, q *app.DenialQuery) (templates.Top, error) {
	top := templates.Top{Heading: "Callers"}
	span, err := q.Span(time.Now())
	if err != nil {
		return top, err
	}
	ranked, err := d.records.Rank(ctx, span, records.MostDenied, topCount)
	if err != nil {
		return top, err
	}
	known, err := app.Records(ctx, d.keys, nil, ranked, func(r records.Ranked) string { return r.ID })
	if err != nil {
		return top, err
	}
	for _, r := range ranked {
		name := r.ID
		if k := known[r.ID]; k.Name != "" {
			name = k.Name
		}
		if troubled := r.Denied + r.Refused; troubled > 0 {
			top.Rows = append(top.Rows, templates.TopRow{Text: page.Clip(name, page.MaxName),
				Calls: page.Number(troubled), Share: app.ShareWords(troubled, r.Calls()) + " of its calls",
				Address: page.Filtered(d.Path("/denials"), list.Values(q), "key", r.ID)})
		}
	}
	return top, nil
}
