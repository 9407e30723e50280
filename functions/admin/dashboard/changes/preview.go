package changes

import (
	"context"
	"net/http"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
	"tidegate/web/templates"
)

const (
	maxReplayed = 200_000 // calls; the latest count
	previewKeys = 10      // of a plan, the busiest ones
)

// PreviewButton is the value of a form's button.
const PreviewButton = "preview"

// PreviewSpan is how much of the recorded calls a preview looks at.
const PreviewSpan = time.Hour

// replayed is what limits would have made of calls.
type replayed struct {
	calls     int64   // in all
	denied    int64   // in fact
	wouldDeny []int64 // denied, by each list of limits
	cut       bool    // only the latest calls were replayed
}

// replay holds the recorded calls of the last hour against lists of limits, each
// beginning with nothing used.
func (c *Changes) replay(
	ctx context.Context, id string, now time.Time, lists ...[]limiter.Limit,
) (replayed, error) {
	calls, err := c.usage.Calls(ctx, id, now.Add(-PreviewSpan), now)
	if err != nil {
		return replayed{}, err
	}
	r := replayed{wouldDeny: make([]int64, len(lists))}
	calls, r.cut = latest(calls)
	for _, c := range calls {
		r.calls += c.Calls
		if c.Denied {
			r.denied += c.Calls
		}
	}
	for i, limits := range lists {
		r.wouldDeny[i] = denials(calls, limits)
	}
	return r, nil
}

// latest bounds what is replayed.
func latest(calls []usage.Call) ([]usage.Call, bool) {
	total := int64(0)
	for i := len(calls) - 1; i >= 0; i-- {
		if total += calls[i].Calls; total > maxReplayed {
			return calls[i+1:], true
		}
	}
	return calls, false
}

// denials counts the calls that the limits would have denied. Without limits none is.
func denials(calls []usage.Call, limits []limiter.Limit) int64 {
	if len(limits) == 0 {
		return 0
	}
	var model limiter.Model
	denied := int64(0)
	for _, c := range calls {
		cost := max(1, c.Cost/max(1, c.Calls))
		for range c.Calls {
			if decision, err := model.Take(c.Time, limits, cost); err != nil || !decision.Allowed {
				denied++
			}
		}
	}
	return denied
}

// words says what came out, for the limits with this index.
func (r replayed) words(i int) string {
	if r.calls == 0 {
		return "No calls in the last hour to compare."
	}
	words := "In the last hour this would have denied " + page.Number(r.wouldDeny[i]) + " of " +
		page.Number(r.calls) + " calls; " + page.Number(r.denied) +
		" were denied."
	if r.cut {
		words += " Only the latest " + page.Number(r.calls) + " were tried."
	}
	return words
}

// PreviewOverride replays the calls of a key against an override.
func (c *Changes) PreviewOverride(
	r *http.Request, set *policy.Set, k policy.Key, o *policy.Override,
) (*templates.Preview, error) {
	after := k
	after.Override = o
	p := &templates.Preview{Changes: OfKey(set, k, after)}
	played, err := c.replay(r.Context(), k.ID, time.Now(), o.Limits)
	if err != nil {
		return nil, err
	}
	p.Effects = []string{played.words(0)}
	if o.Mode == policy.Shadow && played.wouldDeny[0] > 0 {
		p.Effects = append(p.Effects, "In shadow mode none of them is denied.")
	}
	return p, nil
}

// PreviewPlan says what a plan would have made of the last hour's calls: of those of its
// busiest keys by its limits, of denied calls by its open routes.
func (c *Changes) PreviewPlan(r *http.Request, set, next *policy.Set, number int) ([]string, error) {
	now := time.Now()
	p, _ := next.Numbered(number)
	limits, err := c.previewLimits(r.Context(), next, p, now)
	if err != nil {
		return nil, err
	}
	access, err := c.previewAccess(r.Context(), set, p, now)
	if err != nil || access == "" {
		return []string{limits}, err
	}
	return []string{limits, access}, nil
}

// previewLimits replays the calls of the plan's busiest keys, each against the limits by
// itself.
func (c *Changes) previewLimits(ctx context.Context, set *policy.Set, p policy.Plan,
	now time.Time) (string, error) {
	keys, err := c.busiestOf(ctx, set, p.Name, now)
	if err != nil {
		return "", err
	}
	sum := replayed{wouldDeny: make([]int64, 1)}
	for _, k := range keys {
		played, err := c.replay(ctx, k.ID, now, p.Limits)
		if err != nil {
			return "", err
		}
		sum.calls += played.calls
		sum.denied += played.denied
		sum.wouldDeny[0] += played.wouldDeny[0]
		sum.cut = sum.cut || played.cut
	}
	if len(keys) == 0 {
		return "No calls with this plan in the last hour to compare.", nil
	}
	tried := "busiest key"
	if len(keys) > 1 {
		tried = page.Number(int64(len(keys))) + " busiest keys"
	}
	return sum.words(0) + " Tried on the " + tried + " of the plan, without overrides.", nil
}

// busiestOf returns the keys of a plan, without those that have an override, among the
// busiest of the last hour.
func (c *Changes) busiestOf(
	ctx context.Context, set *policy.Set, plan string, now time.Time,
) ([]policy.Key, error) {
	talkers, err := c.usage.Busiest(ctx, now.Add(-PreviewSpan), now, usage.MaxTalkers)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(talkers))
	for i, t := range talkers {
		ids[i] = t.ID
	}
	all, err := c.keys.Many(ctx, set, ids)
	if err != nil {
		return nil, err
	}
	var keys []policy.Key
	for _, k := range all {
		if k.Plan == plan && !k.Override.ActiveAt(now) && len(keys) < previewKeys {
			keys = append(keys, k)
		}
	}
	return keys, nil
}
