package dashboard

import (
	"context"
	"net/http"
	"slices"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

const (
	maxRows   = 6 // of a panel of Overview
	maxListed = 8 // callers of each state that Overview reads
)

// matter is who Overview tells of: the callers that are denied or banned now, those with
// many denied or refused calls in the period, and the busiest.
type matter struct {
	denied, banned, near []app.Subject
	others               []app.DeniedCaller // without a key
	troubled, busiest    []records.Ranked
	limits               []records.KindCount

	known  map[string]policy.Key
	series map[string]records.Series // calls of the period

	attention []string // callers that need attention, each once
	calm      []string // the busiest of the others
}

func (d *dashboard) readMatter(ctx context.Context, at chart.Period, set *policy.Set) (*matter, error) {
	m := &matter{known: map[string]policy.Key{}, series: map[string]records.Series{}}
	for _, list := range []struct {
		of    *[]app.Subject
		list  records.List
		state app.State
	}{
		{&m.denied, records.DeniedNow, app.Blocked}, {&m.banned, records.BannedNow, app.Banned},
		{&m.near, records.Near, app.Near},
	} {
		var err error
		if *list.of, _, err = d.Keys.KeysIn(ctx, set, list.list, list.state, maxListed); err != nil {
			return nil, err
		}
		for _, s := range *list.of {
			m.known[s.ID] = s.Key
		}
	}
	var err error
	if m.others, _, err = d.Keys.DeniedCallers(ctx, maxListed); err != nil {
		return nil, err
	}
	whole := at.Recorded()
	if m.troubled, err = d.Records.Rank(ctx, whole, records.MostDenied, maxListed); err != nil {
		return nil, err
	}
	if m.busiest, err = d.Records.Rank(ctx, whole, records.Busiest, maxListed); err != nil {
		return nil, err
	}
	whole.Step = 0
	limits, err := d.Records.Limits(ctx, whole)
	if err != nil {
		return nil, err
	}
	m.limits = limits.ByKind()
	return m, m.readCallers(ctx, d, at, set)
}

// readCallers reads the keys of the callers, and the calls of those that are shown.
func (m *matter) readCallers(ctx context.Context, d *dashboard, at chart.Period, set *policy.Set) error {
	ranked := slices.Concat(m.troubled, m.busiest)
	unknown := slices.DeleteFunc(slices.Clone(ranked), func(r records.Ranked) bool {
		return m.known[r.ID].ID != ""
	})
	found, err := app.Records(ctx, d.Keys, set, unknown, func(r records.Ranked) string { return r.ID })
	if err != nil {
		return err
	}
	for id, k := range found {
		m.known[id] = k
	}
	m.choose()
	ids := slices.Concat(m.attention, m.calm)
	all, err := d.Records.Callers(ctx, ids, at.Recorded())
	if err != nil {
		return err
	}
	for i, id := range ids {
		m.series[id] = all[i]
	}
	return nil
}

// choose finds the callers that need attention, those denied now first, then the banned,
// then those with denied or refused calls; and the busiest of the others.
func (m *matter) choose() {
	add := func(to *[]string, id string) {
		if len(*to) < maxRows && !slices.Contains(m.attention, id) {
			*to = append(*to, id)
		}
	}
	for _, s := range m.denied {
		add(&m.attention, s.ID)
	}
	for _, c := range m.others {
		add(&m.attention, c.ID)
	}
	for _, s := range m.banned {
		add(&m.attention, s.ID)
	}
	for _, r := range m.troubled {
		if r.Denied+r.Refused > 0 {
			add(&m.attention, r.ID)
		}
	}
	for _, r := range m.busiest {
		add(&m.calm, r.ID)
	}
}

// mostDenied returns the caller with the most denied calls of the period.
func (m *matter) mostDenied() (id string, most records.Counts) {
	for _, other := range m.attention {
		s := m.series[other]
		if sum := s.Sum(); sum.Denied > most.Denied {
			id, most = other, sum
		}
	}
	return id, most
}

// attentionRows returns the callers that need attention, with the reason.
func (d *dashboard) attentionRows(r *http.Request, m *matter, at chart.Period) []templates.AttentionRow {
	edits := page.CanEdit(r)
	var rows []templates.AttentionRow
	for _, id := range m.attention {
		k, s := m.known[id], m.series[id]
		sum := s.Sum()
		row := templates.AttentionRow{Caller: d.callerOf(at, id, k), Calls: page.Number(sum.Calls())}
		switch {
		case sum.Denied > 0:
			row.Denied = page.Number(sum.Denied) + " denied"
		case sum.Refused > 0:
			row.Denied = page.Number(sum.Refused) + " refused"
		}
		m.explain(&row, id, s)
		if edits && k.ID != "" && k.Status == policy.Active && !k.Banned.After(time.Now()) {
			row.Ban = d.keyPath(k) + "/ban"
		}
		rows = append(rows, row)
	}
	return rows
}

// explain says why a caller needs attention. A ban comes before a limit, since it decides
// first.
func (m *matter) explain(row *templates.AttentionRow, id string, s records.Series) {
	now := time.Now()
	deny := func(by app.Denier) {
		row.State, row.Level, row.Reason = "denied now", "denied", page.Clip(by.Limit, page.MaxName)
		if wait := by.Until.Sub(now); !by.Until.IsZero() && wait > 0 {
			row.Reason += ", next call in"
			row.Wait, row.Left = page.Span(wait), wording.SecondsLeft(wait)
		}
	}
	if i := slices.IndexFunc(m.banned, func(s app.Subject) bool { return s.ID == id }); i >= 0 {
		row.State, row.Level = "banned", "denied"
		row.Reason = "until " + page.Instant(m.banned[i].Banned).Text
		return
	}
	if i := slices.IndexFunc(m.denied, func(s app.Subject) bool { return s.ID == id }); i >= 0 {
		deny(m.denied[i].Deniers[0])
		return
	}
	if i := slices.IndexFunc(m.others, func(c app.DeniedCaller) bool { return c.ID == id }); i >= 0 {
		deny(m.others[i].Deniers[0])
		return
	}
	sum := s.Sum()
	row.State, row.Level = "denied", "near"
	if sum.Refused > sum.Denied {
		row.State = "refused"
	}
	for _, k := range s.ByKind() {
		if words := app.KindWords(k.Kind); row.Reason == "" && words != "" {
			row.Reason = page.Clip(words, page.MaxName)
		}
	}
}

// closestRows returns the keys near a limit, the fullest first.
func (m *matter) closestRows(d *dashboard, at chart.Period) []templates.ClosestRow {
	near := app.ByShare(slices.Clone(m.near))
	var rows []templates.ClosestRow
	for _, s := range near[:min(len(near), maxRows)] {
		rows = append(rows, templates.ClosestRow{Caller: d.callerOf(at, s.ID, s.Key),
			Window: wording.Window(s.Fullest())})
	}
	return rows
}

// busyRows returns the busiest callers that do not need attention.
func (m *matter) busyRows(d *dashboard, at chart.Period) []templates.BusyRow {
	var rows []templates.BusyRow
	for _, id := range m.calm {
		s := m.series[id]
		sum := s.Sum()
		row := templates.BusyRow{Caller: d.callerOf(at, id, m.known[id]), Calls: page.Number(sum.Calls()),
			Spark: chart.Sparkline(s)}
		if sum.Shadow > 0 {
			row.Shadow = page.Number(sum.Shadow) + " in shadow"
		}
		rows = append(rows, row)
	}
	return rows
}
