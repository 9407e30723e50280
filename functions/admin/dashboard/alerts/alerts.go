// Package alerts serves the page of alerts: calls that took a limit to one of its
// thresholds. It sends tests. Package dashboard mounts it.
package alerts

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/crossing"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

const (
	perPage = 50 // alerts
	maxID   = 64 // bytes
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
		{Pattern: "GET /alerts", Role: auth.Viewer, Handle: d.show},
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

func (d *Pages) show(w http.ResponseWriter, r *http.Request) error {
	path, query := d.Path("/alerts"), r.URL.Query()
	q := crossing.Query{Subject: strings.TrimSpace(query.Get("key")), After: query.Get("after"),
		Count: perPage}
	p := templates.AlertsPage{
		Page: d.Page(r, "Alerts"), Action: path, Key: page.Clip(q.Subject, maxID),
		Target: targetWords(d.crossings.Target), Nowhere: nowhere,
		Empty: templates.Empty{Heading: "No alerts",
			Advice: "No call has crossed a threshold in the last 30 days. To get alerts, add thresholds " +
				"to a limit of a plan, policy or override: 10,000 per day, notify at 80 %."},
	}
	if len(q.Subject) > maxID || q.Subject != "" && !app.IsID(q.Subject) {
		p.Problem = "No key has this id. Search by name instead?"
		return d.Render(w, r, http.StatusUnprocessableEntity, templates.Alerts(p))
	}
	list, err := d.crossings.List(r.Context(), q)
	if errors.Is(err, crossing.ErrCursor) {
		return page.Problem{Status: http.StatusBadRequest}
	}
	if err == nil {
		p.Rows, err = d.rows(r, list.Events)
	}
	if err != nil {
		return page.Failed("read alerts", err)
	}
	if list.Unreadable > 0 {
		p.Notes = append(p.Notes, "Alerts that cannot be read, skipped: "+page.Number(list.Unreadable)+".")
	}
	if list.Dropped > 0 {
		p.Notes = append(p.Notes, "About "+page.Number(list.Dropped)+
			" more alerts of callers without an API key, yesterday and today, are not listed.")
	}
	if p.Target != "" && page.CanEdit(r) {
		p.Test = d.Path("/alerts/test")
	}
	values := url.Values{"key": {q.Subject}}
	if q.Subject != "" {
		p.Clear = path
	}
	if q.After != "" {
		p.First = page.Address(path, values)
	}
	if list.Next != "" {
		values.Set("after", list.Next)
		p.Next = page.Address(path, values)
	}
	return d.Render(w, r, http.StatusOK, templates.Alerts(p))
}

// rows returns events as rows of a table, with the current names of keys.
func (d *Pages) rows(r *http.Request, events []crossing.Event) ([]templates.AlertRow, error) {
	known, err := app.Records(r.Context(), d.keys, nil, events,
		func(e crossing.Event) string { return e.KeyID })
	if err != nil {
		return nil, err
	}
	rows := make([]templates.AlertRow, len(events))
	for i := range events {
		rows[i] = d.row(&events[i], known[events[i].KeyID])
	}
	return rows, nil
}

func (d *Pages) row(e *crossing.Event, k policy.Key) templates.AlertRow {
	row := templates.AlertRow{
		At: page.Instant(e.Time), Caller: e.KeyID, Plan: page.Clip(e.Plan, page.MaxName),
		Limit: page.Clip(e.Limit, 2*page.MaxName), Threshold: strconv.Itoa(e.Threshold) + " %",
		Used:   page.Number(e.Used) + " of " + page.Number(e.Max),
		Resets: page.Instant(e.Resets), Reached: e.Threshold == 100,
	}
	switch {
	case k.ID != "" && k.Kind == policy.APIKey:
		row.Caller, row.Address = page.Clip(k.Name, page.MaxName), d.Path("/keys/"+k.ID)
	case app.IsID(e.KeyID):
		row.Address = d.Path("/callers/" + e.KeyID)
	}
	return row
}
