package changes

import (
	"context"
	"slices"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
)

// PreviewKeys says what a change of many keys would have made of the recorded calls of
// the busiest of them. The keys are those that a filter means, or the ids when it is nil.
func (c *Changes) PreviewKeys(ctx context.Context, set *policy.Set, f *app.KeyFilter, ids []string,
	change func(*policy.Key)) (string, error) {
	now := time.Now()
	keys, err := c.busiestMeant(ctx, set, f, ids, now)
	if err != nil {
		return "", err
	}
	sum := replayed{wouldDeny: make([]int64, 1)}
	tried := int64(0)
	for _, k := range keys {
		if k.Status != policy.Active {
			continue
		}
		played, err := c.replayChange(ctx, set, k, now, change)
		if err != nil {
			return "", err
		}
		if played.calls > 0 {
			tried++
		}
		sum.calls += played.calls
		sum.denied += played.denied
		sum.wouldDeny[0] += played.wouldDeny[0]
		sum.cut = sum.cut || played.cut
	}
	if tried == 0 {
		return "These keys made no calls in the last hour to compare.", nil
	}
	of := "busiest of these keys."
	if tried > 1 {
		of = page.Number(tried) + " " + of
	}
	return sum.words(0) + " Tried on the " + of, nil
}

// replayChange replays the calls of a key against what holds for it after a change. A key
// that is revoked by it is refused every call.
func (c *Changes) replayChange(ctx context.Context, set *policy.Set, k policy.Key, now time.Time,
	change func(*policy.Key)) (replayed, error) {
	after := k
	change(&after)
	e, _ := set.Effective(after, now)
	var limits []limiter.Limit
	if e.Mode == policy.Enforce {
		limits = e.Limits
	}
	played, err := c.replay(ctx, k.ID, now, limits)
	if after.Status != policy.Active {
		played.wouldDeny = []int64{played.calls}
	}
	return played, err
}

// busiestMeant returns up to previewKeys keys that are meant, the busiest of the last
// hour.
func (c *Changes) busiestMeant(ctx context.Context, set *policy.Set, f *app.KeyFilter, ids []string,
	now time.Time) ([]policy.Key, error) {
	talkers, err := c.usage.Busiest(ctx, now.Add(-PreviewSpan), now, usage.MaxTalkers)
	if err != nil {
		return nil, err
	}
	busiest := make([]string, len(talkers))
	for i, t := range talkers {
		busiest[i] = t.ID
	}
	if f == nil {
		rank := func(id string) int {
			if i := slices.Index(busiest, id); i >= 0 {
				return i
			}
			return len(busiest)
		}
		ids = slices.Clone(ids)
		slices.SortStableFunc(ids, func(a, b string) int { return rank(a) - rank(b) })
		return c.keys.Many(ctx, set, ids[:min(len(ids), previewKeys)])
	}
	found, err := app.PickKeys(ctx, c.keys, set, *f, busiest)
	keys := make([]policy.Key, 0, previewKeys)
	for _, s := range found.Subjects[:min(len(found.Subjects), previewKeys)] {
		keys = append(keys, s.Key)
	}
	return keys, err
}
