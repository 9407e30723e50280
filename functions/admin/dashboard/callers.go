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
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

func (d *dashboard) showCallers(w http.ResponseWriter, r *http.Request) error {
	after := r.URL.Query().Get("after")
	order := app.Order(r.URL.Query().Get("order"))
	if !app.IsRanking(order) {
		order = app.Today
	}
	found, err := app.FindCallers(r.Context(), d.Keys, order, after)
	if errors.Is(err, records.ErrCursor) {
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
		Lead:  "Callers of today (UTC) without a key, override or ban, about the busiest first.",
		Sorts: templates.KeySorts{Calls: sort("Calls", app.Busiest), Denied: sort("Denied", app.MostDenied)},
	}
	if page.CanEdit(r) {
		p.Adopt = d.Path("/callers/new")
	}
	if p.Rows, err = d.callerRows(r.Context(), found.IDs); err != nil {
		return page.Failed("read calls", err)
	}
	if after != "" {
		p.First = address(nil)
	}
	if found.Next != "" {
		p.Next = address(url.Values{"after": {found.Next}})
	}
	if order != app.Today {
		p.Lead, p.Note = "Callers without a key, override or ban.", rankingNote
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
		Advice: "Callers with a token or an address appear here on the day of a call (UTC). If " +
			"IDENTITY_SOURCES of the check function has jwt or ip, send a call without an API key:",
		Command: d.exampleCall("authorization: Bearer $TOKEN"),
	}
}

func (d *dashboard) callerRows(ctx context.Context, ids []string) ([]templates.CallerRow, error) {
	all, err := d.readActivity(ctx, ids)
	if err != nil {
		return nil, err
	}
	denied, err := d.Keys.CallerDeniers(ctx, ids)
	if err != nil {
		return nil, err
	}
	rows := make([]templates.CallerRow, len(ids))
	for i, id := range ids {
		rows[i] = templates.CallerRow{ID: id, Address: d.Path("/callers/" + id), Activity: all[i],
			Badges: wording.CallerBadges(denied[i], time.Now())}
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
	if err := d.addCalls(r.Context(), &p, id, at, path); err != nil {
		return page.Failed("read calls", err)
	}
	d.Remember(w, r)
	if page.CanEdit(r) {
		p.Adopt = d.Path("/callers/new?id=" + id)
	}
	p.Live.Summary = p.Chart.Summary
	return d.RenderLive(w, r, templates.CallerLive(p), templates.Caller(p))
}

// addCalls adds the chart, the state and the latest denials of a caller without a record.
func (d *dashboard) addCalls(
	ctx context.Context, p *templates.CallerPage, id string, at chart.Period, path string,
) error {
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
