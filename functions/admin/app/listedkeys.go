package app

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"tidegate/functions/admin/list"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// ListedKey is a key in a list, its states and its recent calls.
type ListedKey struct {
	policy.Key

	States   []State      `json:"states" doc:"Any of overridden, blocked, near, shadow, banned, expiring, revoked, unreadable"`
	DeniedBy []Denier     `json:"deniedBy" doc:"Limits that deny some or all calls of the key now, those that deny longest first"`
	Limits   []LimitState `json:"limits" doc:"Current state of the limits of each caller and of each group; none for a key that may not call"`
	Activity
}

// Keys returns a page of the keys that match a filter, in an order.
func (r *Registry) Keys(ctx context.Context, set *policy.Set, f KeyFilter, o Order, place list.Paging) (
	list.Page[ListedKey], error) {
	for count := place.Count; ; count /= 2 {
		found, err := FindOrdered(ctx, r, set, f, o, place.After, count)
		if err != nil {
			return list.Page[ListedKey]{}, err
		}
		items, err := r.Listed(ctx, set, found.Subjects)
		if err != nil || count == 1 || !tooLarge(items) {
			return list.Page[ListedKey]{Items: items, Next: found.Next}, err
		}
	}
}

// Listed adds the recent calls of keys.
func (r *Registry) Listed(ctx context.Context, set *policy.Set, subjects []Subject) ([]ListedKey, error) {
	ids := IDsOf(subjects, func(s Subject) string { return s.ID })
	recent, err := Activities(ctx, r.calls, ids, time.Now())
	if err != nil {
		return nil, err
	}
	all := make([]ListedKey, len(subjects))
	for i, s := range subjects {
		if s.Kind == "" { // that of an unreadable record is unknown
			s.Kind = policy.APIKey
		}
		all[i] = ListedKey{
			s.Key,
			append([]State{}, s.States()...),
			s.Deniers,
			StatesOf(set, s.Limits),
			recent[i],
		}
	}
	return all, nil
}

// maxPage bounds a page of keys in bytes. A Lambda function can answer 4.5 MB without
// compression.
const maxPage = 4 << 20

// tooLarge reports whether keys exceed maxPage. A hundred of them never do.
func tooLarge(items []ListedKey) bool {
	if len(items) <= 100 {
		return false
	}
	text, err := json.Marshal(items)
	return err == nil && len(text) > maxPage
}

// LimitState is a limit and what it counts now.
type LimitState struct {
	Limit      policydoc.LimitFields `json:"limit"`
	Text       string                `json:"text" doc:"The limit in words" example:"100 per 10 seconds, on search"`
	Source     string                `json:"source" enum:"plan,policy,override,group" doc:"Where the limit stands: group is an override of the key's group"`
	Plan       string                `json:"plan,omitempty" doc:"Name of the plan where the limit stands"`
	Who        string                `json:"who" doc:"For whom the limit counts apart" example:"each caller"`
	Route      string                `json:"route,omitempty" doc:"Route or pattern whose calls it counts; absent for every call"`
	Cost       int64                 `json:"cost" doc:"What the call takes from the limit"`
	Used       *int64                `json:"used,omitempty" doc:"Absent if unread"`
	Remaining  *int64                `json:"remaining,omitempty" doc:"Absent if unread"`
	Owed       int64                 `json:"owed,omitempty" doc:"Cost counted above the limit by settlements; the limit denies until it has drained"`
	Next       int64                 `json:"next,omitempty" doc:"Milliseconds until remaining rises if nobody calls; absent if nothing is used"`
	RetryAfter int64                 `json:"retryAfter,omitempty" doc:"Milliseconds until the call fits if nobody else calls; absent if it fits, or never does"`
	Never      bool                  `json:"never,omitempty" doc:"The cost is above the limit"`
	Unread     bool                  `json:"unread,omitempty" doc:"The state is not known: each address or parameter has its own, or another limit denied first"`
	CountsOnly bool                  `json:"countsOnly,omitempty" doc:"An override replaces the limit: it goes on counting and denies nothing"`
}

// String is the limit with what it counts, for a file.
func (l LimitState) String() string {
	if l.Unread {
		return l.Text
	}
	return l.Text + ": " + strconv.FormatInt(*l.Used, 10) + " used"
}

// sources has the names of the sources of limits.
var sources = [...]string{limits.FromPlan: "plan", limits.FromPolicy: "policy",
	limits.FromOverride: "override", limits.FromGroupOverride: "group"}

// stateOf converts the state of a limit.
func stateOf(set *policy.Set, l enforce.LimitState) LimitState {
	out := LimitState{Limit: policydoc.LimitFields(l.Fields()), Text: l.String(),
		Source: sources[l.Source],
		Who:    cmp.Or(l.For(), "each caller"), Route: l.On, Cost: l.Cost, Owed: l.Owed,
		Next: l.Next.Milliseconds(), RetryAfter: ceilMilliseconds(l.RetryAfter), Never: l.Never,
		Unread: l.Unread, CountsOnly: l.CountsOnly}
	if number, err := strconv.Atoi(l.PlanID); err == nil && l.Source == limits.FromPlan {
		out.Plan = set.PlanName(number)
	}
	if !l.Unread {
		used, remaining := l.Used(), l.Remaining
		out.Used, out.Remaining = &used, &remaining
	}
	return out
}

// ceilMilliseconds rounds up, so that a client that waits so long is not early.
func ceilMilliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// StatesOf converts the states of limits. It is empty, not nil, without limits.
func StatesOf(set *policy.Set, list []enforce.LimitState) []LimitState {
	all := make([]LimitState, len(list))
	for i, l := range list {
		all[i] = stateOf(set, l)
	}
	return all
}
