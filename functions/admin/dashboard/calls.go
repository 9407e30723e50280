package dashboard

import (
	"context"
	"slices"
	"strconv"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/auditlog"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/simulate"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/usage"
	"tidegate/web/templates"
)

const maxMarks = 50 // changes marked on a chart

// readCalls returns the calls of a subject in a period, and a note on their accuracy,
// which may be empty.
func (d *dashboard) readCalls(ctx context.Context, id string, at chart.Period) (
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
			note = "Calls without an exact time are spread evenly over their minute."
		}
	}
	return points, note, nil
}

// drawCalls completes the chart s with points and with marks for the changes of subject.
// entries holds all audit entries of the subject; if nil, drawCalls reads those of the
// period. No subject and no entries means no marks.
func (d *dashboard) drawCalls(ctx context.Context, s chart.TimeSeries, at chart.Period,
	points []usage.Point, subject string, entries []audit.Entry) (templates.TimeSeries, error) {
	s.ID = "calls"
	s.Title = "Calls, " + at.Words()
	s.Begin = at.From.Truncate(s.Step)
	if len(points) > 0 {
		s.Begin = points[0].Start
	}
	switch {
	case entries != nil:
		entries = slices.DeleteFunc(slices.Clone(entries), func(e audit.Entry) bool {
			return e.Taken().Before(s.Begin) || at.Name == "" && !e.Taken().Before(at.To.Add(s.Step))
		})
	case subject != "":
		query := audit.Query{Subject: subject, Since: s.Begin, Count: maxMarks, KeepPacked: true}
		if at.Name == "" {
			query.After = audit.Before(at.To.Add(s.Step))
		}
		found, err := d.Keys.Audit().List(ctx, query)
		if err != nil {
			return templates.TimeSeries{}, err
		}
		entries = found.Entries
	}
	for _, e := range slices.Backward(entries) { // entries are newest first, marks oldest first
		s.Marks = append(s.Marks, chart.TimeMark{At: e.Time, Text: markText(e, d.ChangesOf(e))})
	}
	s.Allowed, s.Blocked = splitPoints(points)
	return s.View(), nil
}

// markText describes the changes of an entry, such as "plan, tags and 2 others changed".
func markText(e audit.Entry, changes []templates.Change) string {
	if e.Creates() || len(changes) == 0 {
		return e.Action + " of " + auditlog.SubjectWords(e)
	}
	text := changes[0].What
	switch n := len(changes) - 1; {
	case n == 1:
		text += " and " + changes[1].What
	case n > 1:
		text += ", " + changes[1].What + " and " + strconv.Itoa(n-1) + " others"
	}
	return text + " changed"
}

// splitPoints returns the allowed and the denied calls of each point.
func splitPoints(points []usage.Point) (allowed, denied []int64) {
	allowed = make([]int64, len(points))
	denied = make([]int64, len(points))
	for i, p := range points {
		allowed[i] = p.Allowed
		denied[i] = p.Denied
	}
	return allowed, denied
}

// simulateAddress returns the address that replays recorded calls on the first limit that
// the simulation supports. It is empty if there is none, or if the points are not
// minutes.
func (d *dashboard) simulateAddress(limits []limiter.Limit, at chart.Period, points []usage.Point) string {
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

// readActivity returns the last hour's activity of each subject, in the order of ids.
func (d *dashboard) readActivity(ctx context.Context, ids []string) ([]templates.Activity, error) {
	now := time.Now()
	all, err := app.Activities(ctx, d.Usage, ids, now)
	if err != nil {
		return nil, err
	}
	views := make([]templates.Activity, len(all))
	for i, a := range all {
		views[i] = templates.Activity{
			Spark: chart.Sparkline(splitPoints(a.Points)), Allowed: a.Calls.Allowed, Denied: a.Calls.Denied,
			Calls: page.Number(a.Calls.Calls()), Blocked: page.Number(a.Calls.Denied),
			Would: page.Number(a.Calls.ShadowDenied + a.Calls.CandidateDenied),
			Used:  lastUsed(a.Last, now),
		}
	}
	return views, nil
}

// lastUsed returns how long ago the last call was, as text. A zero time means over 24
// hours.
func lastUsed(last, now time.Time) string {
	ago := now.Sub(last).Truncate(time.Minute)
	switch {
	case last.IsZero():
		return "over 24 h"
	case ago < time.Minute:
		return "just now"
	case ago >= time.Hour:
		ago = ago.Truncate(time.Hour)
	}
	return page.Span(ago) + " ago"
}

// rankingNote is shown below a ranked list.
var rankingNote = "Only the top " + page.Number(usage.MaxTalkers) + " callers of the last hour are ranked."
