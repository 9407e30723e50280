// Package alerts serves the page of alerts: calls that took a limit to one of its
// thresholds. It sends tests. Package dashboard mounts it.
package alerts

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/table"
	"tidegate/functions/admin/list"
	"tidegate/internal/crossing"
	"tidegate/web/templates"
)

// Pages serves the page.
type Pages struct {
	*page.Renderer
	keys      *app.Registry
	crossings *crossing.Store
}

// New returns the page; r renders it.
func New(r *page.Renderer, keys *app.Registry, crossings *crossing.Store) *Pages {
	return &Pages{Renderer: r, keys: keys, crossings: crossings}
}

// Routes returns the page.
func (d *Pages) Routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /alerts", Role: auth.Viewer, Handle: d.list().Show},
		{Pattern: "GET /alerts.csv", Role: auth.Viewer, Handle: d.list().Export, Deadline: auth.Slow},
		{Pattern: "POST /alerts/test", Role: auth.Editor, Handle: d.test},
	}
}

// test sends a test event by the way of real ones.
func (d *Pages) test(w http.ResponseWriter, r *http.Request) error {
	err := d.crossings.Test(r.Context(), page.Clip(auth.From(r.Context()).Name, page.MaxName))
	switch {
	case err == nil:
		d.Flash(r, "Test sent, marked “test”. It arrives within minutes. If not, see the alarm "+
			"CrossingsFailed.", "")
	case errors.Is(err, crossing.ErrTested):
		d.Flash(r, "A test was sent less than a minute ago. Wait for it to arrive.", "")
	case errors.Is(err, crossing.ErrNoTarget):
		d.Flash(r, nowhere, "")
	default:
		return page.Failed("test alerts", err)
	}
	http.Redirect(w, r, d.Path("/alerts"), http.StatusSeeOther)
	return nil
}

const nowhere = "Nothing is connected. Alerts are only here, in the API and in the functions' logs."

// targetWords names the event bus or topic of an ARN; empty without one.
func targetWords(arn string) string {
	parts := strings.Split(arn, ":")
	name := strings.TrimPrefix(parts[len(parts)-1], "event-bus/")
	switch {
	case arn == "":
		return ""
	case parts[2] == "events":
		return "EventBridge, event bus " + name
	}
	return "SNS, topic " + name
}

// list returns the list of alerts.
func (d *Pages) list() *table.Of[app.AlertQuery, app.Alert] {
	return &table.Of[app.AlertQuery, app.Alert]{
		Renderer: d.Renderer, Path: "/alerts", Title: "Alerts", File: "alerts",
		Caption: "Reached thresholds, newest first",
		Read: func(ctx context.Context, q *app.AlertQuery) (list.Page[app.Alert], error) {
			return app.Alerts(ctx, d.keys, d.crossings, q)
		},
		Columns: func(*app.AlertQuery) []table.Column[app.Alert] {
			return []table.Column[app.Alert]{
				{Head: "Time", Cell: func(a *app.Alert) templ.Component { return templates.At(a.Time) }},
				{Head: "Caller", Cell: func(a *app.Alert) templ.Component {
					return table.Caller(d.Renderer, a.KeyID, a.Record.Name, a.Plan)
				}},
				{Head: "Reached", Class: "num", Cell: reached},
				{Head: "Limit", Cell: func(a *app.Alert) templ.Component {
					return templates.Text(page.Clip(a.Limit, 2*page.MaxName))
				}},
				{Head: "Used", Class: "num", Cell: func(a *app.Alert) templ.Component {
					return templates.Text(page.Number(a.Used) + " of " + page.Number(a.Max))
				}},
				{Head: "Resets",
					Cell: func(a *app.Alert) templ.Component { return templates.At(a.Resets) }},
			}
		},
		Filters: func(_ context.Context, q *app.AlertQuery) ([]templates.Filter, error) {
			return []templates.Filter{{Name: "key", Label: "Key", Hint: "Name or id",
				Shown: q.KeyName}}, nil
		},
		Empty: func(*app.AlertQuery, *list.Page[app.Alert]) templates.Empty {
			return templates.Empty{Heading: "No alerts",
				Advice: "No call has crossed a threshold in the last 30 days. To get alerts, add " +
					"thresholds to a limit of a plan, policy or override: 10,000 per day, notify at 80 %."}
		},
		Add: d.addTarget,
	}
}

func reached(a *app.Alert) templ.Component {
	text := strconv.Itoa(a.Threshold) + " %"
	if a.Threshold == 100 {
		return templates.Strong(text)
	}
	return templates.Text(text)
}

// addTarget says where alerts are sent, and adds the button that sends a test there.
func (d *Pages) addTarget(r *http.Request, v *templates.List, _ *app.AlertQuery,
	_ *list.Page[app.Alert]) error {
	v.Lead = "Limits that reached an alert threshold in the last 30 days, newest first. "
	target := targetWords(d.crossings.Target)
	if target == "" {
		v.Lead += nowhere + " Deploy with -c crossings=eventbridge or sns to send them."
		return nil
	}
	v.Lead += "Sent to " + target + "."
	if page.CanEdit(r) {
		v.Actions = templates.PostButton(d.Path("/alerts/test"), "Send a test", "Send a test")
	}
	return nil
}
