package changes

import (
	"context"
	"slices"
	"time"

	"tidegate/functions/admin/app"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
)

// maxTrialEdits is how many edits of the policy a search for the begin of a trial reads.
const maxTrialEdits = 20

// TrialSince returns the first whole minute in which the limits in shadow of a plan, or with
// 0 those for all callers, are as they are: after the edit that made them, or the oldest
// edit that was read, or since counts by minute are kept. It is zero without such limits.
func (c *Changes) TrialSince(ctx context.Context, set *policy.Set, plan int) (time.Time, error) {
	now := LimitsOf(set, plan)
	if len(ShadowLimits(now)) == 0 {
		return time.Time{}, nil
	}
	since := wholeMinute(time.Now().Add(-records.MinutesKept))
	found, err := c.keys.Audit(ctx, registry.AuditQuery{Subject: app.PolicyRecord, Since: since,
		Count: maxTrialEdits})
	if err != nil {
		return since, err
	}
	for i, e := range found.Entries {
		var before policy.Set
		if !unmarshal(e.Subjects[0].Before, &before) ||
			!slices.EqualFunc(LimitsOf(&before, plan), now, limits.Limit.Equal) ||
			i == len(found.Entries)-1 && found.Next > 0 {
			return wholeMinute(e.Time), nil
		}
	}
	return since, nil
}

// wholeMinute returns the beginning of the first minute that does not begin before t.
func wholeMinute(t time.Time) time.Time { return t.Add(time.Minute - 1).Truncate(time.Minute) }

// LimitsOf returns the limits of a plan, or with 0 those for all callers.
func LimitsOf(set *policy.Set, plan int) []limits.Limit {
	if plan == 0 {
		return set.Limits
	}
	p, _ := set.PlanByNumber(plan)
	return p.Limits
}

// ShadowLimits returns the limits of a list that calls may exceed without being denied.
func ShadowLimits(list []limits.Limit) []limits.Limit {
	return slices.DeleteFunc(slices.Clone(list), func(l limits.Limit) bool { return !l.Shadow })
}
