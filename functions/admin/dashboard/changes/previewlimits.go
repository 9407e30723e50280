package changes

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
	"tidegate/web/templates"
)

const (
	maxReplayed = 200_000 // latest calls of a key that a preview replays
	previewKeys = 10      // busiest keys that a preview replays
)

// PreviewButton is the value of the form button that shows a preview.
const PreviewButton = "preview"

// PreviewSpan is the period before now whose recorded calls previews use.
const PreviewSpan = time.Hour

// PreviewOverride replays the calls of a key against an override.
func (c *Changes) PreviewOverride(
	r *http.Request, set *policy.Set, k policy.Key, o *policy.Override,
) (*templates.Preview, error) {
	after := k
	after.Override = o
	p := &templates.Preview{Changes: OfKey(set, k, after)}
	result, err := c.replay(r.Context(), k.ID, time.Now(), o.Limits)
	if err != nil {
		return nil, err
	}
	p.Effects = []string{result.text(o.Mode)}
	return p, nil
}

// PreviewPlan describes what a plan and its candidate would have done in the last hour: it
// replays the calls of each of the plan's busiest keys. Keys with an override are left
// out.
func (c *Changes) PreviewPlan(ctx context.Context, set *policy.Set, number int) ([]string, error) {
	now := time.Now()
	p, _ := set.PlanByNumber(number)
	use, err := c.keys.PlanUse(ctx, set, number, time.Time{})
	if err != nil {
		return nil, err
	}
	keys := slices.DeleteFunc(use.Keys, func(k app.PlanKey) bool {
		return k.Calls.Calls() == 0 || k.Effective.Override != nil
	})
	if len(keys) == 0 {
		return []string{"No calls with this plan in the last hour to compare."}, nil
	}
	slices.SortStableFunc(keys, func(a, b app.PlanKey) int {
		return cmp.Compare(b.Calls.Calls(), a.Calls.Calls())
	})
	keys = keys[:min(len(keys), previewKeys)]
	var live, candidate sample
	for _, k := range keys {
		result, err := c.replay(ctx, k.ID, now, p.Limits)
		if err != nil {
			return nil, err
		}
		live.add(k.Name, result)
		if len(p.Candidate) == 0 {
			continue
		}
		if result, err = c.replay(ctx, k.ID, now, p.Candidate); err != nil {
			return nil, err
		}
		candidate.add(k.Name, result)
	}
	which := "busiest key"
	if len(keys) > 1 {
		which = page.Number(int64(len(keys))) + " busiest keys"
	}
	effects := []string{live.sum.text(p.Mode) + " Based on the plan's " + which + " without an override."}
	if p.Mode != policy.Shadow && p.Mode != policy.Off && len(live.newly) > 0 {
		effects = append(effects, "Newly blocked: "+live.names()+".")
	}
	if len(p.Candidate) > 0 {
		text := "The candidate would block " + page.Number(candidate.sum.wouldDeny) + " of these " +
			page.Number(candidate.sum.calls) + " calls"
		if len(candidate.newly) > 0 {
			text += "; newly blocked: " + candidate.names()
		}
		effects = append(effects, text+".")
	}
	return effects, nil
}

// sample is the sum of what was replayed of keys.
type sample struct {
	sum   replayed
	newly []string // keys of which calls would be denied, and were not
}

func (s *sample) add(name string, r replayed) {
	s.sum.add(r)
	if r.wouldDeny > 0 && r.denied == 0 {
		s.newly = append(s.newly, page.Clip(name, page.MaxName)+" ("+page.Number(r.wouldDeny)+" of "+
			page.Number(r.calls)+")")
	}
}

func (s *sample) names() string { return strings.Join(s.newly, ", ") }

// PreviewKeys describes what a change of many keys would have denied of the calls of the
// busiest of them in the last hour. The keys are those that f matches, or the ids if f is
// nil.
func (c *Changes) PreviewKeys(ctx context.Context, set *policy.Set, f *app.KeyFilter, ids []string,
	change func(policy.Key) policy.Key) (string, error) {
	now := time.Now()
	keys, err := c.busiestOf(ctx, set, f, ids, now)
	if err != nil {
		return "", err
	}
	var sum replayed
	replayedKeys := int64(0)
	for _, k := range keys {
		if k.Status != policy.Active {
			continue
		}
		result, err := c.replayChange(ctx, set, k, now, change)
		if err != nil {
			return "", err
		}
		if result.calls > 0 {
			replayedKeys++
		}
		sum.add(result)
	}
	if replayedKeys == 0 {
		return "These keys made no calls in the last hour to compare.", nil
	}
	which := "busiest of these keys."
	if replayedKeys > 1 {
		which = page.Number(replayedKeys) + " " + which
	}
	return sum.text(policy.Enforce) + " Based on the " + which, nil
}

// replayChange replays the calls of a key against the limits that apply to it after a
// change. A change that revokes or bans the key denies all of them.
func (c *Changes) replayChange(ctx context.Context, set *policy.Set, k policy.Key, now time.Time,
	change func(policy.Key) policy.Key) (replayed, error) {
	after := change(k)
	e, _ := set.Effective(after, now)
	var limits []limiter.Limit
	if e.Mode == policy.Enforce {
		limits = e.Limits
	}
	result, err := c.replay(ctx, k.ID, now, limits)
	if after.Status != policy.Active || after.Banned.After(now) {
		result.wouldDeny = result.calls
	}
	return result, err
}

// busiestOf returns up to previewKeys of the keys that f matches, or of the ids if f is
// nil, the busiest of the last hour first.
func (c *Changes) busiestOf(ctx context.Context, set *policy.Set, f *app.KeyFilter, ids []string,
	now time.Time) ([]policy.Key, error) {
	busiest, err := c.busiest(ctx, now)
	if err != nil {
		return nil, err
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

// busiest returns the ids of the busiest callers of the last hour, the busiest first.
func (c *Changes) busiest(ctx context.Context, now time.Time) ([]string, error) {
	ranked, err := c.usage.Rank(ctx, now.Add(-PreviewSpan), now, time.Minute, usage.MaxTalkers, usage.Busiest)
	return app.IDsOf(ranked[usage.Busiest], func(t usage.Talker) string { return t.ID }), err
}

// replayed is the result of replaying recorded calls against other limits.
type replayed struct {
	calls     int64
	denied    int64 // when they were made
	wouldDeny int64 // by the other limits
	cut       bool  // only the latest calls were replayed
}

// replay replays the recorded calls of a key or caller against limits that start unused.
// Without limits no call is denied.
func (c *Changes) replay(
	ctx context.Context, id string, now time.Time, limits []limiter.Limit,
) (r replayed, err error) {
	calls, err := c.usage.Calls(ctx, id, now.Add(-PreviewSpan), now)
	if err != nil {
		return replayed{}, err
	}
	calls, r.cut = latest(calls)
	var model limiter.Model
	for _, call := range calls {
		r.calls += call.Calls
		if call.Denied {
			r.denied += call.Calls
		}
		if len(limits) == 0 {
			continue
		}
		cost := max(1, call.Cost/max(1, call.Calls))
		for range call.Calls {
			if decision, err := model.Take(call.Time, limits, cost); err != nil || !decision.Allowed {
				r.wouldDeny++
			}
		}
	}
	return r, nil
}

// latest returns the latest maxReplayed calls. cut reports that it left out earlier ones.
func latest(calls []usage.Call) (last []usage.Call, cut bool) {
	total := int64(0)
	for i, call := range slices.Backward(calls) {
		if total += call.Calls; total > maxReplayed {
			return calls[i+1:], true
		}
	}
	return calls, false
}

func (r *replayed) add(other replayed) {
	r.calls += other.calls
	r.denied += other.denied
	r.wouldDeny += other.wouldDeny
	r.cut = r.cut || other.cut
}

// text says what limits in a mode would have done.
func (r *replayed) text(mode policy.Mode) string {
	if r.calls == 0 {
		return "No calls in the last hour to compare."
	}
	would, calls, denied := page.Number(r.wouldDeny), page.Number(r.calls), page.Number(r.denied)
	text := "Last hour: " + would + " of " + calls + " calls blocked instead of " + denied + "."
	switch mode {
	case policy.Shadow:
		text = "Last hour: no call blocked instead of " + denied + ". In enforce mode, " + would + " of " +
			calls + " would be."
	case policy.Off:
		text = "Last hour: none of " + calls + " calls counted or blocked instead of " + denied + "."
	case policy.Enforce:
	}
	if r.cut {
		text += " Only the latest " + calls + " calls were replayed."
	}
	return text
}
