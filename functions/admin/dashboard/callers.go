package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
	"tidegate/web/templates"
)

// Callers are whom checks let in without a record: holders of tokens and clients known by
// their address. They are known by an id alone until somebody adopts them.

const (
	callersPerScan = 500 // active callers that are looked at together
	callersPerPage = 50  // of those without a record, after which no more are looked for
	callerScans    = 3
)

// unregistered are callers without a record.
type unregistered struct {
	seen []usage.Seen
	next string // the cursor behind them; empty when there are no more
}

// unregistered returns active callers without a record, those seen last first; or those
// of a ranking.
func (d *dashboard) unregistered(ctx context.Context, o app.Order, after string) (unregistered, error) {
	set, err := d.Keys.Set(ctx)
	if err != nil {
		return unregistered{}, err
	}
	if o != app.LastUsed {
		ids, err := app.Ranked(ctx, d.Usage, o)
		if err != nil {
			return unregistered{}, err
		}
		last, err := d.Usage.LastSeen(ctx, ids)
		if err != nil {
			return unregistered{}, err
		}
		seen := make([]usage.Seen, len(ids))
		for i, id := range ids {
			seen[i] = usage.Seen{ID: id, Last: last[i]}
		}
		unknown, err := d.withoutRecord(ctx, set, seen)
		return unregistered{seen: unknown}, err
	}
	found := unregistered{next: after}
	for range callerScans {
		page, err := d.Usage.Active(ctx, found.next, callersPerScan)
		if err != nil {
			return unregistered{}, err
		}
		unknown, err := d.withoutRecord(ctx, set, page.Subjects)
		if err != nil {
			return unregistered{}, err
		}
		found.seen, found.next = append(found.seen, unknown...), page.Next
		if page.Next == "" || len(found.seen) >= callersPerPage {
			break
		}
	}
	return found, nil
}

func (d *dashboard) withoutRecord(ctx context.Context, set *policy.Set,
	seen []usage.Seen) ([]usage.Seen, error) {
	// Those with ids of another length are API keys.
	seen = slices.DeleteFunc(slices.Clone(seen), func(s usage.Seen) bool { return !app.IsCaller(s.ID) })
	known, err := app.Records(ctx, d.Keys, set, seen, func(s usage.Seen) string { return s.ID })
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(seen, func(s usage.Seen) bool { return known[s.ID].ID != "" }), nil
}

func (d *dashboard) showCallers(w http.ResponseWriter, r *http.Request) {
	after, order := r.URL.Query().Get("after"), app.Order(r.URL.Query().Get("order"))
	if order != app.Busiest && order != app.MostBlocked {
		order = app.LastUsed
	}
	found, err := d.unregistered(r.Context(), order, after)
	if errors.Is(err, usage.ErrCursor) {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	if err != nil {
		d.FailStore(w, r, "list callers", err)
		return
	}
	path, query := d.Path("/callers"), url.Values{"after": {after}, "order": {string(order)}}
	sort := func(text string, o app.Order) templates.Choice {
		return templates.Choice{Text: text, Current: o == order,
			Address: page.Address(path, page.WithLive(url.Values{"order": {string(o)}}, page.LiveSeconds(r)))}
	}
	p := templates.CallersPage{
		Page: d.Page(r, "Callers"), Trail: []templates.Choice{{Text: "Keys", Address: d.Path("/keys")}},
		Live: d.Live(r, path, query, time.Now()), Empty: emptyCallers(found),
		Sorts: templates.KeySorts{Calls: sort("Calls", app.Busiest),
			Blocked: sort("Blocked", app.MostBlocked), Used: sort("Last call", app.LastUsed)},
	}
	if page.CanEdit(r) {
		p.Adopt = d.Path("/callers/new")
	}
	if p.Rows, err = d.callerRows(r.Context(), found.seen); err != nil {
		d.FailStore(w, r, "read calls", err)
		return
	}
	seconds := page.LiveSeconds(r)
	if after != "" {
		p.First = page.Address(path, page.WithLive(nil, seconds))
	}
	if found.next != "" {
		p.Next = page.Address(path, page.WithLive(url.Values{"after": {found.next}}, seconds))
	}
	if order != app.LastUsed {
		p.Note = rankingNote
	}
	p.Live.Summary = page.Number(int64(len(p.Rows))) + " callers shown"
	d.Remember(w, r)
	d.RenderLive(w, r, templates.CallersLive(p), templates.Callers(p))
}

func emptyCallers(found unregistered) templates.Empty {
	if found.next != "" {
		return templates.Empty{Heading: "None yet",
			Advice: "All callers on this page have a record. The next page has more."}
	}
	return templates.Empty{
		Heading: "No callers without a record",
		Advice: "Callers with a token or an address appear here for 24 hours after a call. Send a call " +
			"without an API key, where " +
			"IDENTITY_SOURCES of the check function has jwt or ip:",
		Command: `curl -i -H "authorization: Bearer $TOKEN" "$API_URL"`,
	}
}

func (d *dashboard) callerRows(ctx context.Context, seen []usage.Seen) ([]templates.CallerRow, error) {
	if len(seen) == 0 {
		return nil, nil
	}
	ids := make([]string, len(seen))
	for i, s := range seen {
		ids[i] = s.ID
	}
	now := time.Now()
	all, err := app.Activities(ctx, d.Usage, ids, now)
	if err != nil {
		return nil, err
	}
	rows := make([]templates.CallerRow, len(seen))
	for i, s := range seen {
		rows[i] = templates.CallerRow{ID: s.ID, Address: d.Path("/callers/" + s.ID),
			Last: page.Instant(s.Last), Activity: activity(all[i], now)}
	}
	return rows, nil
}

// showCaller shows what is known of a caller; one with a record has a page of its own.
func (d *dashboard) showCaller(w http.ResponseWriter, r *http.Request) {
	k, err := d.key(r)
	switch {
	case err == nil:
		d.toKey(w, r, k)
		return
	case !errors.Is(err, policy.ErrNotFound) || !app.IsID(r.PathValue("id")):
		d.FailStore(w, r, "get key", err)
		return
	}
	k = policy.Key{ID: r.PathValue("id")}
	path, at := d.Path("/callers/"+k.ID), chart.ReadPeriod(page.View(r), time.Now())
	p := templates.CallerPage{
		Page: d.Page(r, "Caller "+k.ID), ID: k.ID, Live: d.Live(r, path, at.Values(), time.Now()),
		Trail: []templates.Choice{
			{Text: "Keys", Address: d.Path("/keys")}, {Text: "Callers", Address: d.Path("/callers")},
		},
		Range:   at.Range(path, page.LiveSeconds(r)),
		Denials: page.Address(d.Path("/denials"), url.Values{"key": {k.ID}}),
	}
	p.Page.Chart = d.ChartScript()
	points, note, err := d.callsOf(r.Context(), k.ID, at)
	if err == nil {
		drawn := chart.TimeSeries{Step: at.Step, Note: note,
			SelectIn: page.Address(path, page.WithLive(nil, p.Live.Seconds))}
		p.Chart, err = d.draw(r.Context(), drawn, at, points, "", nil)
	}
	if err != nil {
		d.FailStore(w, r, "read calls", err)
		return
	}
	d.Remember(w, r)
	if page.CanEdit(r) {
		p.Adopt = d.Path("/callers/new?id=" + k.ID)
	}
	p.Live.Summary = p.Chart.Summary
	d.RenderLive(w, r, templates.CallerLive(p), templates.Caller(p))
}
