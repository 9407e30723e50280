package denials

import (
	"context"
	"net/url"
	"slices"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

const topCount = 5 // values of a ranking

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

// counts reads the counts of the calls that a filter selects; nil if it has parts by which
// nothing is counted together.
func (d *Pages) counts(ctx context.Context, f filter) (*counted, error) {
	g := records.Range{From: f.From, To: f.To, Step: stepFor(f.To.Sub(f.From))}
	byLimit := f.Plan != "" || f.Limit != ""
	if f.Group != "" || f.Caller != "" && (f.Plan != "" || f.Route != "") || f.Route != "" && byLimit {
		return nil, nil //nolint:nilnil // there are no such counts
	}
	var c counted
	var err error
	switch {
	case f.Caller != "":
		c.Series, err = d.records.Caller(ctx, f.Caller, g)
	case f.Route != "":
		c.Series, err = d.records.Route(ctx, f.Route, g)
	case byLimit:
		c.Series, err = d.records.Limits(ctx, g)
	default:
		c.all = true
		c.Series, err = d.records.Total(ctx, g)
	}
	if err != nil {
		return nil, err
	}
	c.narrow(f)
	c.limits = c.ByKind()
	if c.all && (f.Cause == 0 || f.Cause == cause.Limit) {
		byLimit, err := d.records.Limits(ctx, records.Range{From: f.From, To: f.To})
		if err != nil {
			return nil, err
		}
		c.limits = byLimit.ByKind()
	}
	return &c, nil
}

// narrow leaves what the filter's cause, plan and limit select.
func (c *counted) narrow(f filter) {
	if f.Cause == 0 && f.Plan == "" && f.Limit == "" {
		return
	}
	for i := range c.Points {
		c.Points[i].Counts = records.Counts{}
	}
	for k, calls := range c.Kinds {
		if f.Cause != 0 && k.Cause != f.Cause || f.Plan != "" && k.Plan != f.Plan ||
			f.Limit != "" && k.Limit != f.Limit {
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
func (d *Pages) summaryView(ctx context.Context, c *counted, f filter, live int) (
	*templates.DenialsSummary, error) {
	path, values, sum := d.Path("/denials"), f.values(), c.Sum()
	unbounded := f.values()
	for _, name := range []string{"from", "to", "range"} {
		unbounded.Del(name)
	}
	v := &templates.DenialsSummary{Lead: leadOf(c, f), Figures: []templates.Figure{
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
		d.limitTop("Limits", cause.Limit, c.limits, f), d.limitTop("In shadow", cause.Shadow, c.limits, f)}
	if !c.all || f.Cause != 0 {
		return v, nil
	}
	callers, err := d.callerTop(ctx, f)
	v.Tops = append(v.Tops, callers)
	return v, err
}

// leadOf says in a sentence how many calls were denied and refused, and whether one limit
// denied them.
func leadOf(c *counted, f filter) []templates.Phrase {
	sum, in := c.Sum(), " in this range"
	switch f.span {
	case "1h":
		in = " in the last hour"
	case "":
		if f.from == "" && f.to == "" {
			in = " in the last 24 hours"
		}
	case page.Today, page.Yesterday:
		in = " " + f.span + ", UTC"
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
func (d *Pages) limitTop(heading string, by cause.Cause, all []records.KindCount, f filter) templates.Top {
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
			row.Address = page.Filtered(d.Path("/denials"), f.values(), "limit", name)
		}
		top.Rows = append(top.Rows, row)
	}
	return top
}

// callerTop ranks callers by their denied and refused calls.
func (d *Pages) callerTop(ctx context.Context, f filter) (templates.Top, error) {
	top := templates.Top{Heading: "Callers"}
	ranked, err := d.records.Rank(ctx, records.Range{From: f.From, To: f.To}, records.MostDenied, topCount)
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
				Address: page.Filtered(d.Path("/denials"), f.values(), "key", r.ID)})
		}
	}
	return top, nil
}

// denialRows returns the rows of a list. Their links keep the parameters in keep.
func (d *Pages) denialRows(ctx context.Context, list []records.Denial, keep url.Values) (
	[]templates.DenialRow, error) {
	known, err := app.Records(ctx, d.keys, nil, list, callerOf)
	if err != nil {
		return nil, err
	}
	rows := make([]templates.DenialRow, len(list))
	for i := range list {
		rows[i] = d.denialRow(&list[i], known[list[i].Caller], keep)
	}
	return rows, nil
}

func (d *Pages) denialRow(l *records.Denial, k policy.Key, keep url.Values) templates.DenialRow {
	link := func(name, value string) templates.Choice {
		return templates.Choice{Text: page.Clip(value, page.MaxName),
			Address: page.Filtered(d.Path("/denials"), keep, name, value)}
	}
	row := templates.DenialRow{
		At: page.Instant(l.Time), Calls: page.Number(l.Calls), Caller: l.Caller,
		Plan: page.Clip(l.Plan, page.MaxName), Cause: app.CauseWords[l.Cause],
		Call: l.Method + " " + page.Clip(l.Path, maxFilterText), API: l.API + "/" + l.Stage,
		Reason: l.Reason, Reference: l.Reference(), Network: "–", RetryAfter: "–",
	}
	if l.Calls == 0 {
		row.Calls = "not kept"
	}
	if l.Network.IsValid() {
		row.Network = l.Network.String()
	}
	if neverPasses(l) {
		row.RetryAfter = "never: the limit is below the call's cost"
	} else if l.RetryAfter > 0 {
		row.RetryAfter = page.Span(l.RetryAfter)
	}
	switch {
	case k.ID != "":
		row.Caller, row.Address = page.Clip(k.Name, page.MaxName), d.Path("/keys/"+k.ID)
	case l.Caller == "":
		row.Caller = "unverified"
	case app.IsID(l.Caller):
		row.Address = d.Path("/callers/" + l.Caller)
	}
	if l.Method == "" { // a caller that proved no key: nothing that it sent is recorded
		row.Call, row.API = "–", ""
	}
	if l.Limit != "" {
		row.Limit = link("limit", l.Limit)
	}
	if l.Route != "" {
		row.Route = link("route", l.Route)
	}
	if row.Reference != "" {
		row.Details = page.Address(d.Path("/denials"), url.Values{"request": {row.Reference}})
	}
	return row
}
