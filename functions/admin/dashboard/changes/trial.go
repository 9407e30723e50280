package changes

import (
	"context"
	"slices"
	"tidegate/functions/admin/app"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/usage"
)

// maxTrialEdits is how many edits of the policy a search for the begin of a trial reads.
const maxTrialEdits = 20

// TrialSince returns since when the limits of a plan in shadow are as they are: the
// time of the edit that made them, or of the oldest edit that was read, or the begin of
// counts by minute. It is zero if the plan has no such limits.
func (c *Changes) TrialSince(ctx context.Context, p policy.Plan) (time.Time, error) {
	if len(ShadowLimits(p)) == 0 {
		return time.Time{}, nil
	}
	since := time.Now().Add(-usage.MinutesKept + time.Minute)
	found, err := c.keys.Audit(ctx, registry.AuditQuery{Subject: app.PolicyRecord, Since: since,
		Count: maxTrialEdits})
	if err != nil {
		return since, err
	}
	for i, e := range found.Entries {
		var before policy.Set
		if !unmarshal(e.Subjects[0].Before, &before) {
			return e.Time, nil
		}
		old, existed := before.PlanByNumber(p.Number)
		if !existed || !sameTrial(old, p) || i == len(found.Entries)-1 && found.Next > 0 {
			return e.Time, nil
		}
	}
	return since, nil
}

func sameTrial(a, b policy.Plan) bool {
	return len(ShadowLimits(a)) == 0 && len(ShadowLimits(b)) == 0 ||
		slices.EqualFunc(a.Limits, b.Limits, limits.Limit.Equal)
}

// ShadowLimits returns the limits of a plan that calls may exceed without being denied.
func ShadowLimits(p policy.Plan) []limits.Limit {
	return slices.DeleteFunc(slices.Clone(p.Limits), func(l limits.Limit) bool { return !l.Shadow })
}
