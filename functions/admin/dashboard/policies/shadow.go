package policies

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/answer"
	"tidegate/internal/cause"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

// tried returns the limits in shadow of a list with what each would have denied since a
// time, and what all would have. The list is that of a plan, or with the zero Plan that for
// all callers.
func (d *pages) tried(
	list []limits.Limit, counted records.Series, p policy.Plan, since time.Time, edits bool,
) (rows []templates.TriedLimit, result string) {
	would := map[string]int64{}
	for _, k := range counted.ByKind() {
		if k.Cause == cause.Shadow && (p.Number == 0 || k.Plan == p.Name) {
			would[k.Limit] += k.Calls
		}
	}
	all, begun := int64(0), !since.After(time.Now())
	for _, l := range changes.ShadowLimits(list) {
		n := would[answer.NameOf(l)]
		all += n
		row := templates.TriedLimit{Limit: l.String(), Would: "not counted yet"}
		if begun {
			row.Would = page.AtLeast(n, counted.Incomplete())
		}
		if edits {
			at := url.Values{"limit": {l.String()}}
			if p.Number > 0 {
				at.Set("plan", strconv.Itoa(p.Number))
			}
			row.Enforce = page.Address(d.Path("/policies/enforce"), at)
		}
		rows = append(rows, row)
	}
	if !begun {
		return rows, "Counted from " + page.Instant(since).Text + " on"
	}
	return rows, "Since " + page.Instant(since).Text + ": would have denied " +
		page.AtLeast(all, counted.Incomplete()) + " calls"
}

// triedForAll is tried for the limits for all callers; empty without any in shadow.
func (d *pages) triedForAll(
	ctx context.Context, set *policy.Set, edits bool,
) (rows []templates.TriedLimit, result string, err error) {
	since, err := d.TrialSince(ctx, set, 0)
	if err != nil || since.IsZero() {
		return nil, "", err
	}
	var counted records.Series
	if now := time.Now(); since.Before(now) {
		if counted, err = d.records.Limits(ctx, records.Range{From: since, To: now}); err != nil {
			return nil, "", err
		}
	}
	rows, result = d.tried(set.Limits, counted, policy.Plan{}, since, edits)
	return rows, result + ".", nil
}

// Effects says what the limits in shadow of a plan, or with 0 those for all callers, would
// have denied. There are some.
func Effects(shared *changes.Changes, keys *app.Registry, calls *records.Reader) func(
	context.Context, *policy.Set, int) ([]string, error) {
	d := &pages{Renderer: &page.Renderer{}, Changes: shared, keys: keys, records: calls}
	const in = "Limits in shadow: "
	return func(ctx context.Context, set *policy.Set, plan int) ([]string, error) {
		if plan == 0 {
			rows, result, err := d.triedForAll(ctx, set, false)
			return append([]string{in + result}, limitTexts(rows)...), err
		}
		p, _ := set.PlanByNumber(plan)
		since, err := d.TrialSince(ctx, set, plan)
		if err != nil {
			return nil, err
		}
		use, err := keys.PlanUse(ctx, set, plan, since)
		if err != nil {
			return nil, err
		}
		t := d.trial(p, use, since, false)
		effects := append([]string{in + t.Result}, limitTexts(t.Limits)...)
		for _, k := range t.Keys {
			effects = append(effects, k.Key.Text+": "+k.Would+" of "+k.Calls+" calls")
		}
		return effects, nil
	}
}

// limitTexts says what each of several limits would have denied; nothing for a single one,
// whose count is that of all.
func limitTexts(rows []templates.TriedLimit) []string {
	if len(rows) < 2 {
		return nil
	}
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = row.Limit + ": " + row.Would + " calls"
	}
	return texts
}
