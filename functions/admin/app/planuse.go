package app

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// Bounds of what the page of a plan reads. Tests change maxPlanKeys.
var maxPlanKeys = 500 // keys, by name

const (
	maxPlanStates = 4000 // states of limits of these keys
	maxPlanListed = 100  // others of each list
)

// Share returns the used share of a limit. It exceeds 1 if cost is owed, and is 0 for the
// zero state.
func Share(l enforce.LimitState) float64 {
	if l.Requests == 0 {
		return 0
	}
	return float64(l.Used()+l.Owed) / float64(l.Requests)
}

// Fullest returns the enforced limit of a key with the largest used share. A key without
// any has its fullest in shadow. It is zero for a key that may not call or has no limit.
func (s Subject) Fullest() enforce.LimitState {
	var most, shadow enforce.LimitState
	if s.Status != policy.Active {
		return most
	}
	for _, l := range s.Limits {
		fuller := &most
		switch {
		case l.Unread || l.CountsOnly:
			continue
		case !l.Enforced():
			fuller = &shadow
		}
		if fuller.Requests == 0 || Share(l) > Share(*fuller) {
			*fuller = l
		}
	}
	if most.Requests == 0 {
		return shadow
	}
	return most
}

// ByShare sorts keys by their fullest limits, the fullest first.
func ByShare(all []Subject) []Subject {
	slices.SortFunc(all, func(a, b Subject) int {
		return cmp.Or(cmp.Compare(Share(b.Fullest()), Share(a.Fullest())), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// PlanUse is what the keys of a plan use.
type PlanUse struct {
	Keys []PlanKey // those with the fullest limits first
	// All says that these are all keys of the plan. Otherwise they are the first by name, and
	// keys that are listed as denied or near a limit, or that had most calls denied lately.
	All bool
	// Shadow is what limits of each plan would have denied since the beginning of a trial.
	Shadow records.Series
}

// PlanKey is a key of a plan, and its calls.
type PlanKey struct {
	Subject
	Calls records.Counts // of the last hour
	Trial records.Series // since the beginning of a trial, if there is one
}

// PlanUse returns keys of a plan with their calls of the last hour and, unless it is zero,
// since a time within records.MinutesKept.
func (r *Registry) PlanUse(ctx context.Context, set *policy.Set, p policy.Plan, since time.Time) (
	PlanUse, error) {
	list, complete, err := r.keysOfPlan(ctx, set, p)
	if err != nil {
		return PlanUse{}, err
	}
	all, err := Subjects(ctx, r, set, list)
	if err != nil {
		return PlanUse{}, err
	}
	all = ByShare(all)
	ids, now := IDsOf(all, func(s Subject) string { return s.ID }), time.Now()
	hour, err := r.calls.Callers(ctx, ids, records.Last(activitySpan, 0, now))
	if err != nil {
		return PlanUse{}, err
	}
	use := PlanUse{Keys: make([]PlanKey, len(all)), All: complete}
	for i, s := range all {
		use.Keys[i] = PlanKey{Subject: s, Calls: hour[i].Sum()}
	}
	if since.IsZero() || !since.Before(now) {
		return use, nil
	}
	g := records.Range{From: since, To: now}
	trial, err := r.calls.Callers(ctx, ids, g)
	if err != nil {
		return PlanUse{}, err
	}
	if use.Shadow, err = r.calls.Limits(ctx, g); err != nil {
		return PlanUse{}, err
	}
	for i := range trial {
		use.Keys[i].Trial = trial[i]
	}
	return use, nil
}

// keysOfPlan returns the keys of PlanUse.
func (r *Registry) keysOfPlan(ctx context.Context, set *policy.Set, p policy.Plan) (
	keys []policy.Key, all bool, err error) {
	most := min(maxPlanKeys, maxPlanStates/max(1, len(p.Limits)+len(set.Limits)))
	page, err := r.List(ctx, set, KeyFilter{Plan: p.Number}, "", most)
	if err != nil || page.Next == "" {
		return page.Keys, true, err
	}
	ids, err := ranked(ctx, r.calls, MostDenied)
	if err != nil {
		return nil, false, err
	}
	for _, list := range []records.List{records.DeniedNow, records.Near} {
		listed, err := r.calls.InState(ctx, list, true, "", maxPlanListed)
		if err != nil {
			return nil, false, err
		}
		ids = append(ids, listed.IDs...)
	}
	slices.Sort(ids)
	others, err := r.Many(ctx, set, slices.Compact(ids))
	for _, k := range others {
		known := slices.ContainsFunc(page.Keys, func(first policy.Key) bool { return first.ID == k.ID })
		if k.PlanNumber == p.Number && !known {
			page.Keys = append(page.Keys, k)
		}
	}
	return page.Keys, false, err
}
