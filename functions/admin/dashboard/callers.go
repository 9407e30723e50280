package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
	"tidegate/web/templates"
)

func (d *dashboard) showCallers(w http.ResponseWriter, r *http.Request) error {
	after := r.URL.Query().Get("after")
	order := app.Order(r.URL.Query().Get("order"))
	if order != app.Busiest && order != app.MostBlocked {
		order = app.LastUsed
	}
	found, err := app.FindCallers(r.Context(), d.Keys, order, after)
	if errors.Is(err, usage.ErrCursor) {
		return page.Problem{Status: http.StatusBadRequest}
	}
	if err != nil {
		return page.Failed("list callers", err)
	}
	path := d.Path("/callers")
	address := func(query url.Values) string {
		return page.Address(path, page.WithLive(query, page.LiveSeconds(r)))
	}
	sort := func(text string, o app.Order) templates.Choice {
		return templates.Choice{Text: text, Current: o == order,
			Address: address(url.Values{"order": {string(o)}})}
	}
	query := url.Values{"after": {after}, "order": {string(order)}}
	p := templates.CallersPage{
		Page:  d.Page(r, "Callers"),
		Trail: d.keysTrail(),
		Live:  d.Live(r, path, query, time.Now()),
		Empty: d.emptyCallers(found),
		Sorts: templates.KeySorts{Calls: sort("Calls", app.Busiest),
			Blocked: sort("Blocked", app.MostBlocked), Used: sort("Last call", app.LastUsed)},
	}
	if page.CanEdit(r) {
		p.Adopt = d.Path("/callers/new")
	}
	if p.Rows, err = d.callerRows(r.Context(), found.Seen); err != nil {
		return page.Failed("read calls", err)
	}
	if after != "" {
		p.First = address(nil)
	}
	if found.Next != "" {
		p.Next = address(url.Values{"after": {found.Next}})
	}
	if order != app.LastUsed {
		p.Note = rankingNote
	}
	p.Live.Summary = page.Number(int64(len(p.Rows))) + " callers shown"
	d.Remember(w, r)
	return d.RenderLive(w, r, templates.CallersLive(p), templates.Callers(p))
}

func (d *dashboard) emptyCallers(found app.FoundCallers) templates.Empty {
	if found.Next != "" {
		return templates.Empty{Heading: "No callers on this page",
			Advice: "All active callers searched so far have a record. Continue on the next page."}
	}
	return templates.Empty{
		Heading: "No callers without a record",
		Advice: "Callers with a token or an address appear here for 24 hours after a call. If " +
			"IDENTITY_SOURCES of the check function has jwt or ip, send a call without an API key:",
		Command: d.exampleCall("authorization: Bearer $TOKEN"),
	}
}

func (d *dashboard) callerRows(ctx context.Context, seen []usage.Seen) ([]templates.CallerRow, error) {
	all, err := d.readActivity(ctx, app.IDsOf(seen, func(s usage.Seen) string { return s.ID }))
	if err != nil {
		return nil, err
	}
	rows := make([]templates.CallerRow, len(seen))
	for i, s := range seen {
		rows[i] = templates.CallerRow{ID: s.ID, Address: d.Path("/callers/" + s.ID),
			Last: page.Instant(s.Last), Activity: all[i]}
	}
	return rows, nil
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
	at := chart.ReadPeriod(page.View(r), time.Now())
	p := templates.CallerPage{
		Page:    d.Page(r, "Caller "+id),
		ID:      id,
		Live:    d.Live(r, path, at.Values(), time.Now()),
		Trail:   d.callersTrail(),
		Range:   at.Range(path, page.LiveSeconds(r)),
		Denials: page.Address(d.Path("/denials"), url.Values{"key": {id}}),
	}
	p.Page.Chart = d.ChartScript()
	points, note, err := d.readCalls(r.Context(), id, at)
	if err != nil {
		return page.Failed("read calls", err)
	}
	s := chart.TimeSeries{Step: at.Step, Note: note,
		SelectIn: page.Address(path, page.WithLive(nil, p.Live.Seconds))}
	p.Chart = d.drawCalls(r.Context(), s, at, points, marked{})
	d.Remember(w, r)
	if page.CanEdit(r) {
		p.Adopt = d.Path("/callers/new?id=" + id)
	}
	p.Live.Summary = p.Chart.Summary
	return d.RenderLive(w, r, templates.CallerLive(p), templates.Caller(p))
}

// callersTrail leads back to the list of callers.
func (d *dashboard) callersTrail() []templates.Choice {
	return append(d.keysTrail(), templates.Choice{Text: "Callers", Address: d.Path("/callers")})
}
