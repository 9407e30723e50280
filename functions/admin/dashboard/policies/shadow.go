package policies

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/answer"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

// tried returns the limits in shadow of a list with what each would have denied since a
// time, and what all would have. The list is that of a plan, or with the zero Plan that for
// all callers.
func (d *pages) tried(list []limits.Limit, counted records.Series, p policy.Plan, since time.Time,
	edits bool) (rows []templates.TriedLimit, result string) {
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
func (d *pages) triedForAll(ctx context.Context, set *policy.Set,
	edits bool) (rows []templates.TriedLimit, result string, err error) {
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
// have denied, and which keys are above a threshold that an edit of the plan adds.
func Effects(shared *changes.Changes, keys *app.Registry, calls *records.Reader) func(
	ctx context.Context, before, after *policy.Set, plan int) ([]string, error) {
	d := &pages{Renderer: &page.Renderer{}, Changes: shared, keys: keys, records: calls}
	const in = "Limits in shadow: "
	return func(ctx context.Context, before, after *policy.Set, plan int) ([]string, error) {
		if plan == 0 {
			rows, result, err := d.triedForAll(ctx, before, false)
			if err != nil || len(rows) == 0 {
				return nil, err
			}
			return append([]string{in + result}, limitTexts(rows)...), nil
		}
		p, _ := before.PlanByNumber(plan)
		next, _ := after.PlanByNumber(plan)
		since, err := d.TrialSince(ctx, before, plan)
		reports := slices.ContainsFunc(next.Limits, func(l limits.Limit) bool { return len(l.Notify) > 0 })
		if err != nil || since.IsZero() && !reports {
			return nil, err
		}
		use, err := keys.PlanUse(ctx, before, p, since)
		if err != nil {
			return nil, err
		}
		effects := above(next, use.Keys)
		t := d.trial(p, use, since, false)
		if t == nil {
			return effects, nil
		}
		effects = append(append(effects, in+t.Result), limitTexts(t.Limits)...)
		for _, k := range t.Keys {
			effects = append(effects, k.Key.Text+": "+k.Would+" of "+k.Calls+" calls")
		}
		return effects, nil
	}
}

// above says how many keys have reached thresholds that a plan has and their limits lack. No
// call reports these, until the use falls below and reaches them again.
func above(next policy.Plan, keys []app.PlanKey) (texts []string) {
	plain := func(l limits.Limit) limits.Limit {
		l.Requests, l.Notify, l.Who = 1, nil, max(l.Who, limits.EachCaller)
		return l
	}
	for _, l := range next.Limits {
		for _, percent := range l.Notify {
			reached := func(s enforce.LimitState) bool {
				return s.Source == limits.FromPlan && !s.Unread && plain(s.Limit).Equal(plain(l)) &&
					!slices.Contains(s.Notify, percent) && s.Used()*100 >= int64(percent)*l.Requests
			}
			n := int64(0)
			for _, k := range keys {
				if slices.ContainsFunc(k.Limits, reached) {
					n++
				}
			}
			if n > 0 {
				texts = append(texts, app.KeyCount(n)+" at "+strconv.Itoa(percent)+" % of "+l.Rate()+
					" or above now: reported when reached again.")
			}
		}
	}
	return texts
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
