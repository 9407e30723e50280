package app

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// Bounds of a search for the keys that are closest to a limit. Tests change maxRead.
var maxRead = 500 // keys whose limits are read

const (
	maxListed = 1000 // keys of each list of states, and busiest callers, that are considered
	maxLook   = 4000 // limits that are read, over all keys
)

// Fullest is the enforced limit of a key with the largest used share. A key without any
// has its fullest in shadow.
type Fullest = enforce.LimitState

// Share returns the used share of a limit. It exceeds 1 if cost is owed, and is 0 for the
// zero Fullest.
func Share(l enforce.LimitState) float64 {
	if l.Requests == 0 {
		return 0
	}
	return float64(l.Used()+l.Owed) / float64(l.Requests)
}

// Reach says which keys a search for those closest to a limit read.
type Reach string

// The reaches.
const (
	ReadAll  Reach = "all"  // every key that matches the filter
	ReadNear Reach = "near" // every listed key that is denied or near a limit, and busy ones
	ReadSome Reach = "some" // some of those
)

// closest returns up to count keys that match the filter, those with the fullest limit
// first.
func closest(
	ctx context.Context, keys *Registry, set *policy.Set, f KeyFilter, count int,
) (FoundKeys, error) {
	list, reach, err := keys.reach(ctx, set, f)
	if err != nil {
		return FoundKeys{}, err
	}
	all, err := keys.byShare(ctx, set, list)
	found := FoundKeys{Scanned: len(list), Reach: reach}
	for _, s := range all {
		if s.Is(f.State) && len(found.Subjects) < count {
			found.Subjects = append(found.Subjects, s)
		}
	}
	return found, err
}

// byShare returns the keys with their states and their fullest limits, the fullest first.
func (r *Registry) byShare(ctx context.Context, set *policy.Set, list []policy.Key) ([]Subject, error) {
	all, err := Subjects(ctx, r, set, list)
	if err != nil {
		return nil, err
	}
	return ByShare(all), nil
}

// ByShare finds the fullest limit of each key, and sorts the keys by it, the fullest first.
func ByShare(all []Subject) []Subject {
	for i := range all {
		all[i].Fullest = fullest(all[i])
	}
	slices.SortFunc(all, func(a, b Subject) int {
		return cmp.Or(cmp.Compare(Share(b.Fullest), Share(a.Fullest)), cmp.Compare(a.ID, b.ID))
	})
	return all
}

func fullest(s Subject) Fullest {
	if s.Status != policy.Active {
		return Fullest{}
	}
	var most, shadow Fullest
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

// reach returns the keys that match a filter and may be closest to a limit, up to maxRead.
// If no more match, these are all of them. Otherwise they come from the lists of denied
// keys and of keys near a limit, and then from the busiest callers of today in UTC.
func (r *Registry) reach(ctx context.Context, set *policy.Set, f KeyFilter) ([]policy.Key, Reach, error) {
	most := max(1, min(maxRead, maxLook/max(1, limitsOfKeys(set))))
	matches := func(k policy.Key) bool { return f.matchesRecord(set, k) }
	if !f.counted() {
		page, err := r.List(ctx, set, f, "", most)
		if err != nil || page.Next == "" {
			return slices.DeleteFunc(page.Keys, func(k policy.Key) bool { return !matches(k) }), ReadAll, err
		}
	}
	reach := ReadNear
	var ids []string
	for _, list := range []records.List{records.DeniedNow, records.Near} {
		listed, err := r.calls.InState(ctx, list, true, "", maxListed)
		if err != nil {
			return nil, "", err
		}
		if ids = append(ids, listed.IDs...); listed.Next != "" {
			reach = ReadSome
		}
	}
	near := len(ids)
	busiest, err := r.calls.Active(ctx, "", maxListed)
	if err != nil {
		return nil, "", err
	}
	ids = unique(append(ids, busiest.IDs...))
	found, err := r.Many(ctx, set, ids)
	if err != nil {
		return nil, "", err
	}
	found = slices.DeleteFunc(found, func(k policy.Key) bool { return !matches(k) })
	if len(found) > most {
		if slices.Contains(ids[:min(near, len(ids))], found[most].ID) {
			reach = ReadSome
		}
		found = found[:most]
	}
	return found, reach, nil
}

// limitsOfKeys returns the number of the policy's limits of each caller and each group,
// which are read for every key.
func limitsOfKeys(set *policy.Set) int {
	n := 0
	for _, l := range set.Limits {
		if l.Who.OfCaller() || l.Who == limits.EachGroup {
			n++
		}
	}
	return n
}

// unique returns the ids without repetitions, in their order.
func unique(ids []string) []string {
	seen := make(map[string]bool, len(ids))
	return slices.DeleteFunc(ids, func(id string) bool {
		was := seen[id]
		seen[id] = true
		return was
	})
}

// PlanUse is what the keys of a plan use.
type PlanUse struct {
	Keys  []PlanKey // those closest to a limit first
	Reach Reach
	// Shadow is what limits of each plan would have denied since the beginning of a trial.
	Shadow records.Series
}

// PlanKey is a key of a plan, and its calls.
type PlanKey struct {
	Subject
	Calls records.Counts // of the last hour
	Trial records.Series // since the beginning of a trial, if there is one
}

// PlanUse returns the keys of a plan that are closest to a limit, or all if there are few,
// with their calls of the last hour and, unless it is zero, since a time within
// records.MinutesKept.
func (r *Registry) PlanUse(
	ctx context.Context, set *policy.Set, number int, since time.Time,
) (PlanUse, error) {
	list, reach, err := r.reach(ctx, set, KeyFilter{Plan: number})
	if err != nil {
		return PlanUse{}, err
	}
	all, err := r.byShare(ctx, set, list)
	if err != nil {
		return PlanUse{}, err
	}
	ids, now := IDsOf(all, func(s Subject) string { return s.ID }), time.Now()
	hour, err := r.calls.Callers(ctx, ids, records.Last(activitySpan, 0, now))
	if err != nil {
		return PlanUse{}, err
	}
	use := PlanUse{Keys: make([]PlanKey, len(all)), Reach: reach}
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
