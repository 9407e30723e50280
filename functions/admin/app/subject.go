package app

import (
	"context"
	"slices"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
)

// State is a condition of a key that operators filter by.
type State string

// The states of keys.
const (
	Overridden State = "overridden" // has an override, in force or past
	Blocked    State = "blocked"    // a call would be denied now
	Near       State = "near"       // a limit is nearly used up
	Shadow     State = "shadow"     // no enforced limit
	Banned     State = "banned"
	Expiring   State = "expiring" // expired, or expires within ExpiresSoon
	Revoked    State = State(policy.Revoked)
	Unreadable State = State(policy.Unreadable)
)

// States lists the states in the order in which pages offer them.
func States() []State {
	return []State{Overridden, Blocked, Near, Shadow, Banned, Expiring, Revoked, Unreadable}
}

// ExpiresSoon is how long before its end an expiry or an override is shown as near.
const ExpiresSoon = 30 * 24 * time.Hour

// Subject is a key, the limits in force for it, and what its next call would get.
type Subject struct {
	policy.Key
	Effective policy.Effective
	// Limits are those of each caller and of each group, as a next call of cost 1 finds them.
	Limits  []enforce.LimitState
	At      time.Time // this function's clock, to which expiries are compared
	Fullest Fullest   // zero unless the list is ordered by it, and for a key without limits
}

// NewSubject returns the Subject of a key at an instant of this function's clock.
func NewSubject(set *policy.Set, k policy.Key, states []enforce.LimitState, at time.Time) Subject {
	e, _ := set.Effective(k, at)
	return Subject{Key: k, Effective: e, Limits: states, At: at}
}

// States returns every state that the key is in. A key that is not active has only the
// state of its status.
func (s Subject) States() []State {
	if s.Status != policy.Active {
		return []State{State(s.Status)}
	}
	var all []State
	for _, c := range []struct {
		state State
		in    bool
	}{
		{Banned, s.Banned.After(s.At)},
		{Expiring, !s.Expires.IsZero() && s.Expires.Sub(s.At) < ExpiresSoon},
		{Blocked, s.blocked()},
		{Near, !s.blocked() && slices.ContainsFunc(s.Limits, near)},
		{Shadow, policy.DenyNothing(s.Effective.Limits)},
		{Overridden, s.Override != nil},
	} {
		if c.in {
			all = append(all, c.state)
		}
	}
	return all
}

// blocked reports whether a call that falls under no route is denied.
func (s Subject) blocked() bool {
	return slices.ContainsFunc(s.Limits, func(l enforce.LimitState) bool { return l.On == "" && l.Denies() })
}

func near(l enforce.LimitState) bool { return l.Enforced() && !l.Unread && l.NearlyUsedUp() }

// Is reports whether the key is in a state. It is true for the empty state.
func (s Subject) Is(state State) bool { return state == "" || slices.Contains(s.States(), state) }

// Percent returns used as a percentage of of. It rounds so that only 0 used is 0 and only
// a full limit is 100.
func Percent(used, of int64) int64 {
	if used <= 0 || of <= 0 {
		return 0
	}
	if used >= of {
		return 100
	}
	return max(1, min(99, used*100/of))
}

// Subjects reads the counts of each key.
func Subjects(ctx context.Context, keys *Registry, set *policy.Set,
	list []policy.Key) ([]Subject, error) {
	return subjects(ctx, keys, set, "", list)
}

// subjects is like Subjects, but with the state Banned it omits keys that are not banned,
// and does not read their counts.
func subjects(ctx context.Context, keys *Registry, set *policy.Set, state State,
	list []policy.Key) ([]Subject, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if state == Banned {
		at := time.Now()
		list = slices.DeleteFunc(list, func(k policy.Key) bool { return !k.Banned.After(at) })
	}
	states, err := keys.Usage(ctx, set, list)
	if err != nil {
		return nil, err
	}
	at := time.Now()
	all := make([]Subject, len(list))
	for i, k := range list {
		all[i] = NewSubject(set, k, states[i], at)
	}
	return all, nil
}

// SurveyKey returns a key and every limit that its calls fall under.
func SurveyKey(ctx context.Context, checker *enforce.Checker, set *policy.Set,
	k policy.Key) (Subject, enforce.Survey, error) {
	survey, err := checker.Survey(ctx, set, k)
	return NewSubject(set, k, survey.Result.Limits, time.Now()), survey, err
}

// Records returns the records of the keys and callers that items belong to, by id.
// Callers without a record are left out. Records reads the set if set is nil and there
// are items.
func Records[T any](
	ctx context.Context, keys *Registry, set *policy.Set, items []T, id func(T) string,
) (map[string]policy.Key, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if set == nil {
		var err error
		if set, err = keys.Set(ctx); err != nil {
			return nil, err
		}
	}
	found, err := keys.Many(ctx, set, IDsOf(items, id))
	records := make(map[string]policy.Key, len(found))
	for _, k := range found {
		records[k.ID] = k
	}
	return records, err
}

// IDsOf returns the ids of items.
func IDsOf[T any](items []T, id func(T) string) []string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = id(item)
	}
	return ids
}

// Activity is the recent calls of a key or caller.
type Activity struct {
	Points []usage.Point // of the last hour, ActivityStep each
	Calls  usage.Counts  // sum of the points
	Last   time.Time     // minute of the last call; zero if there was none in 24 hours
}

const (
	activitySpan = time.Hour
	// ActivityStep is the time between two points of an Activity.
	ActivityStep = 2 * time.Minute
)

// Activities returns the recent calls of each key or caller, in the order of ids.
func Activities(ctx context.Context, calls *usage.Reader, ids []string, now time.Time) ([]Activity, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	series, err := calls.Sparklines(ctx, ids, now.Add(-activitySpan), now, ActivityStep)
	if err != nil {
		return nil, err
	}
	last, err := calls.LastSeen(ctx, ids)
	if err != nil {
		return nil, err
	}
	all := make([]Activity, len(ids))
	for i := range all {
		all[i] = Activity{series[i], usage.Sum(series[i]), last[i]}
	}
	return all, nil
}
