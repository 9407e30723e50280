package app

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// State is a condition of a key that operators filter by.
type State string

// The states of keys.
const (
	Overridden State = "overridden" // has an override, in force or past
	Blocked    State = "blocked"    // a limit denies some or all of its calls now
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
	Deniers []Denier  // not nil: limits that deny its calls now, those that deny longest first
	At      time.Time // this function's clock, to which expiries are compared

	recorded records.State
}

// NewSubject returns the Subject of a key, by the states of its limits and by what was
// recorded of its denials, at an instant of this function's clock.
func NewSubject(set *policy.Set, k policy.Key, states []enforce.LimitState, recorded records.State,
	at time.Time) Subject {
	e, _ := set.Effective(k, at)
	s := Subject{Key: k, Effective: e, Limits: states, Deniers: []Denier{}, At: at, recorded: recorded}
	if k.Status == policy.Active {
		s.Deniers = append(s.Deniers, deniers(set, e, states, recorded, at)...)
	}
	return s
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
		{Blocked, len(s.Deniers) > 0},
		{Near, len(s.Deniers) == 0 && slices.ContainsFunc(s.Limits, near)},
		{Shadow, policy.DenyNothing(s.Effective.Limits)},
		{Overridden, s.Override != nil},
	} {
		if c.in {
			all = append(all, c.state)
		}
	}
	return all
}

func near(l enforce.LimitState) bool { return l.Enforced() && !l.Unread && l.NearlyUsedUp() }

// Is reports whether the key is in a state. It is true for the empty state.
func (s Subject) Is(state State) bool { return state == "" || slices.Contains(s.States(), state) }

// Percent returns a part as a percentage of a whole, rounded to the nearest: 10 of 60 are
// 17. A part above the whole is 100.
func Percent(part, whole int64) int64 {
	switch {
	case part <= 0 || whole <= 0:
		return 0
	case part >= whole:
		return 100
	}
	return int64(math.Round(float64(part) / float64(whole) * 100))
}

// ShareWords returns a part of a whole in words: "17 %", "less than 1 %", "more than 99 %".
func ShareWords(part, whole int64) string {
	switch n := Percent(part, whole); {
	case n == 0 && part > 0:
		return "less than 1 %"
	case n == 100 && part < whole:
		return "more than 99 %"
	default:
		return strconv.FormatInt(n, 10) + " %"
	}
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
	recorded, err := keys.calls.States(ctx, IDsOf(list, func(k policy.Key) string { return k.ID }))
	if err != nil {
		return nil, err
	}
	at := time.Now()
	all := make([]Subject, len(list))
	for i, k := range list {
		all[i] = NewSubject(set, k, states[i], recorded[i], at)
	}
	return all, nil
}

// Survey returns a key and every limit that its calls fall under.
func (r *Registry) Survey(ctx context.Context, set *policy.Set, k policy.Key) (
	Subject, enforce.Survey, error) {
	survey, err := r.checker.Survey(ctx, set, k)
	if err != nil {
		return Subject{}, survey, err
	}
	recorded, err := r.calls.States(ctx, []string{k.ID})
	if err != nil {
		return Subject{}, survey, err
	}
	return NewSubject(set, k, survey.Result.Limits, recorded[0], time.Now()), survey, nil
}

// Records returns the records of the keys and callers that items belong to, by id.
// Callers without a record are left out. Records reads the set if set is nil and there
// are items.
func Records[T any](ctx context.Context, keys *Registry, set *policy.Set, items []T,
	id func(T) string) (map[string]policy.Key, error) {
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
	Series   records.Series `json:"-"` // of the last hour, in steps of 2 minutes
	LastHour records.Counts `json:"lastHour" doc:"Calls of the last hour"`
	AtLeast  bool           `json:"atLeast,omitempty" doc:"Calls of the last hour may be missing"`
	Last     time.Time      `json:"lastUsed,omitzero" required:"false" doc:"Minute of the last call; absent without a call in the last 24 hours"`
}

const (
	activitySpan = time.Hour
	activityStep = 2 * time.Minute
)

// Activities returns the recent calls of each key or caller, in the order of ids.
func Activities(ctx context.Context, calls *records.Reader, ids []string, now time.Time) ([]Activity, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	series, err := calls.Callers(ctx, ids, records.Last(activitySpan, activityStep, now))
	if err != nil {
		return nil, err
	}
	last, err := calls.LastCalls(ctx, ids)
	if err != nil {
		return nil, err
	}
	all := make([]Activity, len(ids))
	for i := range all {
		all[i] = Activity{series[i], series[i].Sum(), series[i].Incomplete(), last[i]}
	}
	return all, nil
}

// OldSecretUsed returns the minute, or the hour if it is long ago, of a caller's last call
// with its previous secret; zero without one in 30 days.
func OldSecretUsed(ctx context.Context, calls *records.Reader, id string, now time.Time) (time.Time, error) {
	last := func(s records.Series) (at time.Time) {
		for _, p := range s.Points {
			if p.OldSecret > 0 {
				at = p.Start
			}
		}
		return at
	}
	byHour, err := calls.Caller(ctx, id, records.Last(records.HoursKept, time.Hour, now))
	hour := last(byHour)
	if err != nil || hour.IsZero() || now.Sub(hour) > records.MinutesKept {
		return hour, err
	}
	byMinute, err := calls.Caller(ctx, id,
		records.Range{From: hour, To: hour.Add(time.Hour), Step: time.Minute})
	return last(byMinute), err
}

// LastDenial returns the limit that denied the caller last; false for none in 50 hours.
func (s Subject) LastDenial() (records.Denier, bool) {
	for _, d := range s.recorded.Deniers {
		if d.Cause == cause.Limit {
			return d, true
		}
	}
	return records.Denier{}, false
}
