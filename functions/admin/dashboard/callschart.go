package dashboard

import (
	"context"
	"slices"
	"strconv"
	"time"

	"tidegate/functions/admin/dashboard/auditlog"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/simulate"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/usage"
	"tidegate/web/templates"
)

// callsOf returns the calls of a subject in a period, and what is to be said of their
// times; empty for nothing.
func (d *dashboard) callsOf(ctx context.Context, id string, at chart.Period) (
	points []usage.Point, note string, err error,
) {
	if at.Step >= time.Minute {
		points, err = d.Usage.Series(ctx, id, at.From, at.To, at.Step)
		return points, "", err
	}
	calls, err := d.Usage.Calls(ctx, id, at.From, at.To)
	if err != nil {
		return nil, "", err
	}
	begin := at.From.Truncate(at.Step)
	points = make([]usage.Point, (at.To.Sub(begin)+at.Step-1)/at.Step)
	for i := range points {
		points[i].Start = begin.Add(time.Duration(i) * at.Step)
	}
	for _, c := range calls {
		p := &points[c.Time.Sub(begin)/at.Step]
		if c.Denied {
			p.Denied += c.Calls
		} else {
			p.Allowed += c.Calls
		}
		if !c.Noted {
			note = "Some calls are spread evenly over their minute."
		}
	}
	return points, note, nil
}

// draw finishes a chart of calls with the changes that the audit has of a subject; known
// are all its entries, or nil when they are to be read.
func (d *dashboard) draw(ctx context.Context, s chart.TimeSeries, at chart.Period, points []usage.Point,
	subject string, known []audit.Entry) (templates.TimeSeries, error) {
	s.ID, s.Title, s.Begin = "calls", "Calls, "+at.Words(), at.From.Truncate(s.Step)
	if len(points) > 0 {
		s.Begin = points[0].Start
	}
	switch {
	case known != nil:
		s.Marks = d.marks(slices.DeleteFunc(slices.Clone(known), func(e audit.Entry) bool {
			return e.Taken().Before(s.Begin) || at.Name == "" && !e.Taken().Before(at.To.Add(s.Step))
		}))
	case subject != "":
		query := audit.Query{Subject: subject, Since: s.Begin, Count: maxMarks, Heads: true}
		if at.Name == "" {
			query.After = audit.Before(at.To.Add(s.Step))
		}
		entries, err := d.Keys.Audit().List(ctx, query)
		if err != nil {
			return templates.TimeSeries{}, err
		}
		s.Marks = d.marks(entries.Entries)
	}
	s.Allowed, s.Blocked = columns(points)
	return s.View(), nil
}

// playAddress is where the lab plays recorded minutes to the first limit that it knows;
// empty without any.
func (d *dashboard) playAddress(limits []limiter.Limit, at chart.Period, points []usage.Point) string {
	if at.Step != time.Minute {
		return ""
	}
	minutes := make([]int64, len(points))
	for i, p := range points {
		minutes[i] = p.Calls()
	}
	for _, l := range limits {
		if query := simulate.Recorded(l, minutes, usage.Sum(points).Allowed); query != "" {
			return d.Path("/simulate?" + query)
		}
	}
	return ""
}

// marks are the changes of limits among entries, oldest first.
func (d *dashboard) marks(entries []audit.Entry) []chart.TimeMark {
	var all []chart.TimeMark
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		all = append(all, chart.TimeMark{At: e.Time, Text: markWords(e, d.ChangesOf(e))})
	}
	return all
}

// markWords names what an entry changed.
func markWords(e audit.Entry, changes []templates.Change) string {
	if e.Creates() || len(changes) == 0 {
		return e.Action + " of " + auditlog.SubjectWords(e)
	}
	words := changes[0].What
	switch n := len(changes) - 1; {
	case n == 1:
		words += " and " + changes[1].What
	case n > 1:
		words += ", " + changes[1].What + " and " + strconv.Itoa(n-1) + " others"
	}
	return words + " changed"
}
