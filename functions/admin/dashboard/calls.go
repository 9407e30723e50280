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
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// marked is what a chart of calls marks: the changes of a key, and those of its plan and
// group.
type marked struct {
	entries []changes.Entry // of the key
	policy  int64           // version of the policy; 0 for no marks of it
	plan    string          // name; empty for all changes of the policy
	group   string          // of a key with a plan; may be empty
}

// concerns reports whether a change of a part of the policy, such as "plan free", is marked.
func (m marked) concerns(part string) bool {
	for kind, name := range map[string]string{"plan ": m.plan, "group ": m.group} {
		if other, found := strings.CutPrefix(part, kind); m.plan != "" && found && other != name {
			return false
		}
	}
	return true
}

// drawCalls draws what was recorded of calls in a period, with marks. selectIn is the
// address that shows a part of the period.
func (d *dashboard) drawCalls(ctx context.Context, series records.Series, at chart.Period, selectIn string,
	m marked) templates.TimeSeries {
	s := chart.TimeSeries{ID: "calls", Title: "Calls " + at.Each(), Series: series, Admitted: true,
		SelectIn: selectIn}
	s.Marks = d.marks(m.entries, marked{})
	if m.policy > 0 {
		s.Marks = append(s.Marks, d.marks(d.History(ctx, app.PolicyRecord, m.policy), m)...)
	}
	s.Marks = slices.DeleteFunc(s.Marks, func(mark chart.TimeMark) bool {
		return mark.At.Before(s.From) || at.Name == "" && !mark.At.Before(s.To)
	})
	slices.SortStableFunc(s.Marks, func(a, b chart.TimeMark) int { return a.At.Compare(b.At) })
	return s.View()
}

// marks returns a mark for each entry, with a link to it. It omits changes that concern
// other plans or groups only.
func (d *dashboard) marks(entries []changes.Entry, m marked) []chart.TimeMark {
	var marks []chart.TimeMark
	for _, e := range entries {
		list := slices.DeleteFunc(slices.Clone(e.Changes), func(c templates.Change) bool {
			return !m.concerns(c.Of)
		})
		if len(list) == 0 && m.plan != "" {
			continue
		}
		e.Changes = list
		marks = append(marks, chart.TimeMark{At: e.Time, Text: markText(e),
			Address: d.Path("/audit?change=" + strconv.FormatUint(e.Number, 10))})
	}
	return marks
}

// markText describes the changes of an entry, such as "plan and 2 others changed".
func markText(e changes.Entry) string {
	whole := len(e.Changes) == 1 && e.Changes[0].Of == e.Changes[0].What // created or deleted
	if e.Items != 1 || len(e.Changes) == 0 || e.Action == registry.KeyCreate || whole {
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

func activityView(a *app.Activity, now time.Time) templates.Activity {
	sum := a.LastHour
	v := templates.Activity{
		Calls: page.AtLeast(sum.Calls(), a.AtLeast), Denied: page.Number(sum.Denied),
		Used: lastUsed(a.Last, now),
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
