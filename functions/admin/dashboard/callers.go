package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/a-h/templ"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/table"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/list"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// callerList returns the list of callers without a record.
func (d *dashboard) callerList() *table.Of[app.CallerQuery, app.Caller] {
	now := time.Now()
	activity := func(c *app.Caller) templates.Activity { return activityView(&c.Activity, now) }
	return &table.Of[app.CallerQuery, app.Caller]{
		Renderer: d.Renderer, Path: "/callers", Title: "Callers", File: "callers", Live: true,
		Caption: "Callers without a key", Read: d.Keys.Callers,
		RowID: func(c *app.Caller) string { return "caller-" + c.ID },
		Order: func(q *app.CallerQuery) string { return q.Order },
		Columns: func(*app.CallerQuery) []table.Column[app.Caller] {
			return []table.Column[app.Caller]{
				{Head: "Caller", Cell: func(c *app.Caller) templ.Component {
					return templates.Link(c.ID, d.Path("/callers/"+c.ID))
				}},
				{Head: "Status", Cell: func(c *app.Caller) templ.Component {
					return templates.Badges(wording.CallerBadges(c.DeniedBy, now))
				}},
				{Head: "Last call", Class: "narrow", Cell: func(c *app.Caller) templ.Component {
					return templates.Text(activity(c).Used)
				}},
				{Head: "Last hour", Class: "wide", Cell: func(c *app.Caller) templ.Component {
					return templates.SparklineChart(chart.Sparkline(c.Series))
				}},
				{
					Head:  "Calls",
					Class: "num",
					Order: string(app.Busiest),
					Cell: func(c *app.Caller) templ.Component {
						return templates.Text(activity(c).Calls)
					},
				},
				{
					Head:  "Denied",
					Class: "num",
					Order: string(app.MostDenied),
					Cell: func(c *app.Caller) templ.Component {
						return templates.DeniedCell(activity(c))
					},
				},
			}
		},
		Empty: d.emptyCallers,
		Add: func(r *http.Request, v *templates.List, q *app.CallerQuery, _ *list.Page[app.Caller]) error {
			v.Trail, v.Heading = d.keysTrail(), templates.Text("Callers without a key")
			v.Lead = "Callers of today (UTC) without a key, override or ban, about the busiest first."
			if app.IsRanking(app.Order(q.Order)) {
				v.Lead = "Callers without a key, override or ban."
			}
			if page.CanEdit(r) {
				v.Actions = templates.ActionLink("Override or ban a caller", d.Path("/callers/new"))
			}
			return nil
		},
	}
}

func (d *dashboard) showCallers(w http.ResponseWriter, r *http.Request) error {
	return d.callerList().Show(w, r)
}

func (d *dashboard) emptyCallers(_ *app.CallerQuery, found *list.Page[app.Caller]) templates.Empty {
	if found.Next != "" {
		return templates.Empty{Heading: "No callers on this page",
			Advice: "All active callers searched so far have a record. Continue on the next page."}
	}
	return templates.Empty{
		Heading: "No callers without a record",
		Advice: "Callers with a token or an address appear here on the day of a call (UTC). If " +
			"IDENTITY_SOURCES of the check function has jwt or ip, send a call without an API key:",
		Command: d.exampleCall("authorization: Bearer $TOKEN"),
	}
}

// showCaller shows a caller without a record. If there is a record, it redirects to the
// record's page.
func (d *dashboard) showCaller(w http.ResponseWriter, r *http.Request) error {
	k, err := d.key(r)
	switch {
	case err == nil:
		return d.redirectToKey(w, r, k)
	case !errors.Is(err, policy.ErrNotFound) || !app.IsID(r.PathValue("id")):
		return page.Failed("get key", err)
	}
	id := r.PathValue("id")
	path := d.Path("/callers/" + id)
	at := chart.ReadPeriod(r.URL.Query(), time.Now())
	p := templates.CallerPage{
		Page:    d.Page(r, "Caller "+id),
		ID:      id,
		Live:    d.Live(r, path, at.Values(), time.Now()),
		Trail:   d.callersTrail(),
		Range:   at.Range(path, page.LiveSeconds(r)),
		Denials: page.Address(d.Path("/denials"), url.Values{"key": {id}}),
	}
	p.Page.Chart = d.ChartScript()
	if err := d.addCalls(r.Context(), &p, id, at, path); err != nil {
		return page.Failed("read calls", err)
	}
	if page.CanEdit(r) {
		p.Adopt = d.Path("/callers/new?id=" + id)
	}
	p.Live.Summary = p.Chart.Summary
	return d.RenderLive(w, r, templates.CallerLive(p), templates.Caller(p))
}

// addCalls adds the chart, the state and the latest denials of a caller without a record.
func (d *dashboard) addCalls(ctx context.Context, p *templates.CallerPage, id string, at chart.Period,
	path string) error {
	series, err := d.Records.Caller(ctx, id, at.Recorded())
	if err != nil {
		return err
	}
	p.Chart = d.drawCalls(ctx, series, at, page.Address(path, page.WithLive(nil, p.Live.Seconds)), marked{})
	denied, err := d.Keys.CallerDeniers(ctx, []string{id})
	if err != nil {
		return err
	}
	p.Badges = wording.CallerBadges(denied[0], time.Now())
	recent, err := d.denials.Recent(ctx, id)
	p.Recent = recent.Table
	return err
}

// callersTrail leads back to the list of callers.
func (d *dashboard) callersTrail() []templates.Choice {
	return append(d.keysTrail(), templates.Choice{Text: "Callers", Address: d.Path("/callers")})
}
