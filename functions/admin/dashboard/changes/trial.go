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

// TrialSince returns the first whole minute in which the limits of a plan in shadow are as
// they are: after the edit that made them, or the oldest edit that was read, or since counts
// by minute are kept. It is zero if the plan has no such limits.
func (c *Changes) TrialSince(ctx context.Context, p policy.Plan) (time.Time, error) {
	if len(ShadowLimits(p)) == 0 {
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
		if !unmarshal(e.Subjects[0].Before, &before) {
			return wholeMinute(e.Time), nil
		}
		old, existed := before.PlanByNumber(p.Number)
		if !existed || !sameTrial(old, p) || i == len(found.Entries)-1 && found.Next > 0 {
			return wholeMinute(e.Time), nil
		}
	}
	return since, nil
}

// wholeMinute returns the beginning of the first minute that does not begin before t.
func wholeMinute(t time.Time) time.Time { return t.Add(time.Minute - 1).Truncate(time.Minute) }

func sameTrial(a, b policy.Plan) bool {
	return len(ShadowLimits(a)) == 0 && len(ShadowLimits(b)) == 0 ||
		slices.EqualFunc(a.Limits, b.Limits, limits.Limit.Equal)
}

// ShadowLimits returns the limits of a plan that calls may exceed without being denied.
func ShadowLimits(p policy.Plan) []limits.Limit {
	return slices.DeleteFunc(slices.Clone(p.Limits), func(l limits.Limit) bool { return !l.Shadow })
}
