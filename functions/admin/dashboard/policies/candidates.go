package policies

import (
	"context"
	"time"

	"tidegate/functions/admin/dashboard/changes"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
)

// candidateResult counts the calls of the last hour, and those that a candidate would
// have denied.
type candidateResult struct{ calls, wouldDeny int64 }

// candidateResults counts, for each plan with a candidate, what it would have denied of
// the calls of the plan's keys among the busiest.
func (d *pages) candidateResults(ctx context.Context, set *policy.Set) (map[int]candidateResult, error) {
	found := map[int]candidateResult{}
	for _, p := range set.Plans {
		if len(p.Candidate) > 0 {
			found[p.Number] = candidateResult{}
		}
	}
	if len(found) == 0 {
		return found, nil
	}
	now := time.Now()
	talkers, err := d.Usage.Busiest(ctx, now.Add(-changes.PreviewSpan), now, usage.MaxTalkers)
	if err != nil {
		return nil, err
	}
	ids, counts := make([]string, len(talkers)), map[string]usage.Counts{}
	for i, t := range talkers {
		ids[i], counts[t.ID] = t.ID, t.Counts
	}
	keys, err := d.Keys.Many(ctx, set, ids)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		p, _ := set.Plan(k.Plan)
		if t, ok := found[p.Number]; ok {
			c := counts[k.ID]
			found[p.Number] = candidateResult{t.calls + c.Calls(), t.wouldDeny + c.CandidateDenied}
		}
	}
	return found, nil
}
