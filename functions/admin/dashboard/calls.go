package dashboard

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/auditlog"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/registry"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
	"tidegate/web/templates"
)

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

// marked is what a chart of calls marks: the changes of a key, and those of its plan.
type marked struct {
	entries []changes.Entry // of the key
	policy  int64           // version of the policy; 0 for no marks of it
	plan    string          // name; empty for all changes of the policy
}

// drawCalls completes the chart s with points and with marks.
func (d *dashboard) drawCalls(ctx context.Context, s chart.TimeSeries, at chart.Period,
	points []usage.Point, m marked) templates.TimeSeries {
	s.ID = "calls"
	s.Title = "Calls, " + at.Words()
	s.Begin = at.From.Truncate(s.Step)
	if len(points) > 0 {
		s.Begin = points[0].Start
	}
	s.Marks = d.marks(m.entries, "")
	if m.policy > 0 {
		s.Marks = append(s.Marks, d.marks(d.History(ctx, app.PolicyRecord, m.policy), m.plan)...)
	}
	s.Marks = slices.DeleteFunc(s.Marks, func(mark chart.TimeMark) bool {
		return mark.At.Before(s.Begin) || at.Name == "" && !mark.At.Before(at.To.Add(s.Step))
	})
	slices.SortStableFunc(s.Marks, func(a, b chart.TimeMark) int { return a.At.Compare(b.At) })
	s.Allowed, s.Blocked = splitPoints(points)
	s.Would = make([]int64, len(points))
	for i, p := range points {
		s.Would[i] = p.ShadowDenied
	}
	return s.View()
}

// marks returns a mark for each entry, with a link to it. With the name of a plan it omits
// changes that concern other plans only.
func (d *dashboard) marks(entries []changes.Entry, plan string) []chart.TimeMark {
	var marks []chart.TimeMark
	for _, e := range entries {
		list := e.Changes
		if plan != "" {
			list = slices.DeleteFunc(slices.Clone(list), func(c templates.Change) bool {
				return strings.HasPrefix(c.Of, "plan ") && c.Of != "plan "+plan
			})
			if len(list) == 0 {
				continue
			}
		}
		e.Changes = list
		marks = append(marks, chart.TimeMark{At: e.Time, Text: markText(e),
			Address: d.Path("/audit?change=" + strconv.FormatUint(e.Number, 10))})
	}
	return marks
}

// blockedBy splits the blocked calls of a chart by what blocked them, as far as the denial
// log of the last 24 hours says. It returns nil for a chart that begins earlier.
func blockedBy(log denylog.Page, at chart.Period, points []usage.Point) []chart.Part {
	if len(points) == 0 || at.From.Before(time.Now().Add(-denylog.Retention-time.Minute)) {
		return nil
	}
	var parts []chart.Part
	begin := points[0].Start
	for _, l := range log.Denials {
		step := int(l.Time.Sub(begin) / at.Step)
		if l.Cause.Refuses() || l.Time.Before(begin) || step >= len(points) {
			continue
		}
		name := app.DenierWords(l)
		i := slices.IndexFunc(parts, func(p chart.Part) bool { return p.Name == name })
		if i < 0 {
			i = len(parts)
			parts = append(parts, chart.Part{Name: name, Calls: make([]int64, len(points))})
		}
		parts[i].Calls[step] += l.Calls
	}
	return parts
}

// markText describes the changes of an entry, such as "plan and 2 others changed".
func markText(e changes.Entry) string {
	if e.Items != 1 || len(e.Changes) == 0 || e.Action == registry.KeyCreate {
		return auditlog.Words(e)
	}
	text := e.Changes[0].What
	switch len(e.Changes) {
	case 1:
	case 2:
		text += " and " + e.Changes[1].What
	default:
		text += " and " + strconv.Itoa(len(e.Changes)-1) + " others"
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
			Would: page.Number(a.Calls.ShadowDenied),
			Used:  lastUsed(a.Last, now),
		}
	}
	return views, nil
}

// lately is how long a caller's last call is known, and notLately says that it is longer
// ago.
const (
	lately    = 24 * time.Hour
	notLately = "over 24 h"
)

// lastUsed returns how long ago the last call was, as text. A zero time means over 24
// hours.
func lastUsed(last, now time.Time) string {
	ago := now.Sub(last).Truncate(time.Minute)
	switch {
	case last.IsZero():
		return notLately
	case ago < time.Minute:
		return "just now"
	case ago >= time.Hour:
		ago = ago.Truncate(time.Hour)
	}
	return page.Span(ago) + " ago"
}

// rankingNote is shown below a ranked list.
var rankingNote = "Only the top " + page.Number(usage.MaxTalkers) + " callers of the last hour are ranked."
