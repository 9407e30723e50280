package dashboard

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/auditlog"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/audit"
	"tidegate/internal/policyset"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

const maxMarks = 50 // changes marked on a chart

// history is what a chart of calls marks: the changes of a subject, and of its plan.
type history struct {
	subject string        // empty for none
	entries []audit.Entry // all of the subject; nil to read those of the period
	plan    string        // name; empty for none
}

// drawCalls draws what was recorded of calls in a period, with marks for the changes of h.
// selectIn is the address that shows a part of the period.
func (d *dashboard) drawCalls(ctx context.Context, series records.Series, at chart.Period, selectIn string,
	h history) (templates.TimeSeries, error) {
	s := chart.TimeSeries{ID: "calls", Title: "Calls, " + at.Words(), Series: series, Admitted: true,
		SelectIn: selectIn}
	query := audit.Query{Subject: h.subject, Since: s.From, Count: maxMarks, KeepPacked: true}
	end := s.To
	if at.Name == "" {
		query.After = audit.Before(end)
	}
	switch {
	case h.entries != nil:
		h.entries = slices.DeleteFunc(slices.Clone(h.entries), func(e audit.Entry) bool {
			return e.Taken().Before(s.From) || at.Name == "" && !e.Taken().Before(end)
		})
	case h.subject != "":
		found, err := d.Keys.Audit().List(ctx, query)
		if err != nil {
			return templates.TimeSeries{}, err
		}
		h.entries = found.Entries
	}
	s.Marks = d.marks(h.entries, "")
	if h.plan != "" {
		query.Subject = policyset.SetID
		found, err := d.Keys.Audit().List(ctx, query)
		if err != nil {
			return templates.TimeSeries{}, err
		}
		s.Marks = append(s.Marks, d.marks(found.Entries, h.plan)...)
	}
	slices.SortStableFunc(s.Marks, func(a, b chart.TimeMark) int { return a.At.Compare(b.At) })
	return s.View(), nil
}

// marks returns a mark for each entry, with a link to it. With the name of a plan it omits
// changes that concern other plans only.
func (d *dashboard) marks(entries []audit.Entry, plan string) []chart.TimeMark {
	var marks []chart.TimeMark
	for _, e := range entries {
		list := d.ChangesOf(e)
		if plan != "" {
			list = slices.DeleteFunc(slices.Clone(list), func(c templates.Change) bool {
				return strings.HasPrefix(c.Of, "plan ") && c.Of != "plan "+plan
			})
			if len(list) == 0 {
				continue
			}
		}
		at := e.Taken().Truncate(time.Second)
		marks = append(marks, chart.TimeMark{At: e.Time, Text: markText(e, list),
			Address: page.Address(d.Path("/audit"), url.Values{"subject": {e.Subject},
				"from": {at.Format(time.RFC3339)}, "to": {at.Add(time.Second).Format(time.RFC3339)}})})
	}
	return marks
}

// markText describes the changes of an entry, such as "plan and 2 others changed".
func markText(e audit.Entry, changes []templates.Change) string {
	if e.Creates() || len(changes) == 0 {
		return auditlog.Words(e, changes)
	}
	text := changes[0].What
	switch len(changes) {
	case 1:
	case 2:
		text += " and " + changes[1].What
	default:
		text += " and " + strconv.Itoa(len(changes)-1) + " others"
	}
	return text + " changed"
}

// readActivity returns the last hour's activity of each caller, in the order of ids.
func (d *dashboard) readActivity(ctx context.Context, ids []string) ([]templates.Activity, error) {
	now := time.Now()
	all, err := app.Activities(ctx, d.Records, ids, now)
	if err != nil {
		return nil, err
	}
	views := make([]templates.Activity, len(all))
	for i := range all {
		views[i] = activityView(&all[i], now)
	}
	return views, nil
}

func activityView(a *app.Activity, now time.Time) templates.Activity {
	sum := a.Sum()
	v := templates.Activity{
		Spark: chart.Sparkline(a.Series), Calls: page.AtLeast(sum.Calls(), a.Incomplete()),
		Denied: page.Number(sum.Denied), Used: lastUsed(a.Last, now),
	}
	if sum.Refused > 0 {
		v.Refused = page.Number(sum.Refused)
	}
	if sum.Shadow > 0 {
		v.Shadow = page.Number(sum.Shadow)
	}
	return v
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
var rankingNote = "Only the top " + page.Number(records.MaxRanked) + " callers of the last hour are ranked."
