package changes

import (
	"context"
	"slices"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/usage/denylog"
)

// maxRouted is how many denied calls' routes a preview looks at; the latest count.
const maxRouted = 10_000

// routed counts the denied calls of the last hour, whose routes are in the denial log.
type routed struct {
	denied, closes int64 // for another cause than their route; of these, to routes that a list closes
	refused, opens int64 // for their route; of these, to routes that a list opens
	cut            bool  // only the latest calls were looked at
}

// previewAccess says what another list of a plan's open routes would have made of the
// last hour's denied calls. It is empty when the list stays.
func (c *Changes) previewAccess(ctx context.Context, set *policy.Set, p policy.Plan,
	now time.Time) (string, error) {
	old, _ := set.Numbered(p.Number)
	if slices.Equal(old.Allow, p.Allow) {
		return "", nil
	}
	var logged []denylog.Entry
	cut := false
	for d, err := range c.usage.EveryDenial(ctx, denylog.Query{From: now.Add(-PreviewSpan), To: now}) {
		if err != nil {
			return "", err
		}
		if cut = len(logged) == maxRouted; cut {
			break
		}
		if d.Plan == old.Name || d.Cause == cause.Access && d.Subject != "" {
			logged = append(logged, d)
		}
	}
	keys, err := c.refusedKeys(ctx, set, logged)
	if err != nil {
		return "", err
	}
	r := routed{cut: cut}
	for _, d := range logged {
		r.add(d, keys[d.Subject], old, p)
	}
	return r.words(), nil
}

// refusedKeys returns the keys whose calls were refused for their route, by id. The log
// does not have their plan.
func (c *Changes) refusedKeys(ctx context.Context, set *policy.Set,
	logged []denylog.Entry) (map[string]policy.Key, error) {
	keys := map[string]policy.Key{}
	for _, d := range logged {
		if d.Cause == cause.Access {
			keys[d.Subject] = policy.Key{}
		}
	}
	ids := make([]string, 0, len(keys))
	for id := range keys {
		ids = append(ids, id)
	}
	found, err := c.keys.Many(ctx, set, ids)
	for _, k := range found {
		keys[k.ID] = k
	}
	return keys, err
}

// add counts a denied call. k is the key of a call that was refused for its route.
func (r *routed) add(d denylog.Entry, k policy.Key, before, after policy.Plan) {
	call := route.Call{API: d.API, Stage: d.Stage, Method: d.Method, Path: d.Path}
	switch {
	case d.Cause != cause.Access:
		r.denied += d.Calls
		if policy.AccessProblem(policy.Key{}, after, call) != "" {
			r.closes += d.Calls
		}
	case k.Plan == before.Name:
		r.refused += d.Calls
		if policy.AccessProblem(k, after, call) == "" {
			r.opens += d.Calls
		}
	}
}

func (r *routed) words() string {
	words := "Routes of allowed calls are not recorded."
	if r.denied > 0 {
		words += " Of the plan's " + page.Number(r.denied) +
			" denied calls of the last hour, this would refuse " +
			page.Number(r.closes) + " for their route."
	}
	if r.refused > 0 {
		words += " Of " + page.Number(r.refused) + " calls refused for their route, this would open " +
			page.Number(r.opens) + "."
	}
	if r.denied+r.refused == 0 {
		words += " No call was denied in the last hour to compare."
	}
	if r.cut {
		words += " Only the latest " + page.Number(maxRouted) + " were looked at."
	}
	return words
}
