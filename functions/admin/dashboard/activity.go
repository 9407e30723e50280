package dashboard

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/usage"
	"tidegate/web/templates"
)

// addActivity adds what each row's key did in the last hour.
func (d *dashboard) addActivity(ctx context.Context, rows []templates.KeyRow) error {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	now := time.Now()
	all, err := app.Activities(ctx, d.Usage, ids, now)
	if err != nil {
		return err
	}
	for i, a := range all {
		rows[i].Activity = activity(a, now)
	}
	return nil
}

func activity(a app.Activity, now time.Time) templates.Activity {
	out := templates.Activity{
		Spark: chart.Sparkline(columns(a.Points)), Allowed: a.Calls.Allowed, Denied: a.Calls.Denied,
		Calls: page.Number(a.Calls.Calls()), Blocked: page.Number(a.Calls.Denied), Used: "over 24 h",
	}
	switch ago := now.Sub(a.Last).Truncate(time.Minute); {
	case a.Last.IsZero():
	case ago < time.Minute:
		out.Used = "just now"
	case ago >= time.Hour:
		out.Used = page.Span(ago.Truncate(time.Hour)) + " ago"
	default:
		out.Used = page.Span(ago) + " ago"
	}
	return out
}

// columns takes a series of counts apart.
func columns(points []usage.Point) (allowed, blocked []int64) {
	allowed, blocked = make([]int64, len(points)), make([]int64, len(points))
	for i, p := range points {
		allowed[i], blocked[i] = p.Allowed, p.Denied
	}
	return allowed, blocked
}

// rankingNote says how long rankings are.
var rankingNote = "Only the " + page.Number(usage.MaxTalkers) + " callers with the most this hour are ranked."

// sortRows sorts a ranking by what its rows show.
func sortRows(rows []templates.KeyRow, o app.Order) {
	by := map[app.Order]func(templates.Activity) int64{
		app.Busiest:     func(a templates.Activity) int64 { return a.Allowed },
		app.MostBlocked: func(a templates.Activity) int64 { return a.Denied },
	}[o]
	if by == nil {
		return
	}
	slices.SortStableFunc(rows, func(a, b templates.KeyRow) int {
		return cmp.Compare(by(b.Activity), by(a.Activity))
	})
}
