package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"tidegate/functions/admin/list"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// KeyQuery selects keys.
type KeyQuery struct {
	Name   string `query:"q" maxLength:"100" doc:"Only names that contain this; case is ignored. Names that begin with it come first"`
	Prefix string `query:"prefix" maxLength:"100" doc:"Only names with this prefix; case is ignored"`
	Tag    string `query:"tag" maxLength:"50" doc:"Only keys that have this tag"`
	Group  string `query:"group" maxLength:"64" doc:"Only keys of this group"`
	Plan   string `query:"plan" maxLength:"400" doc:"Only keys of the plan with this name or number"`
	State  string `query:"state" enum:"overridden,blocked,near,shadow,banned,expiring,revoked,unreadable" doc:"Only keys in this state; banned, blocked and near are not sorted by name"`
	Order  string `query:"order" enum:"name,busiest,denied,today" default:"name" doc:"busiest and denied: the keys among the 64 callers with the most calls, or with the most calls that were denied, refused, or would be denied in shadow, of the last hour, on one page. today: keys that called on the present day in UTC, about the busiest first"`
	list.Paging
	Filter KeyFilter // what the query selects; Keys sets it
}

// Read sets Filter, and the number of a plan in place of its name.
func (q *KeyQuery) Read(set *policy.Set) error {
	q.Filter = KeyFilter{Prefix: q.Prefix, Tag: q.Tag, Group: q.Group, State: State(q.State)}
	if q.Name != "" {
		q.Filter.Prefix, q.Filter.Anywhere = q.Name, true
	}
	if q.Name != "" && q.Prefix != "" {
		return &list.InvalidError{Name: "prefix", Message: "cannot be combined with q"}
	}
	if q.Plan == "" {
		return nil
	}
	p, known := set.Plan(q.Plan)
	if n, err := strconv.Atoi(q.Plan); !known && err == nil {
		p, known = set.PlanByNumber(n)
	}
	if !known {
		return &list.InvalidError{Name: "plan", Message: "no plan has this name"}
	}
	q.Filter.Plan, q.Plan = p.Number, strconv.Itoa(p.Number)
	return nil
}

// ListedKey is a key in a list, its states and its recent calls.
type ListedKey struct {
	policy.Key

	States   []State      `json:"states" doc:"Any of overridden, blocked, near, shadow, banned, expiring, revoked, unreadable"`
	DeniedBy []Denier     `json:"deniedBy" doc:"Limits that deny some or all calls of the key now, those that deny longest first"`
	Limits   []LimitState `json:"limits" doc:"Current state of the limits of each caller and of each group; none for a key that may not call"`
	Activity
	Subject Subject `json:"-"`
}

// Keys returns keys by name, or in the order of the query.
func (r *Registry) Keys(ctx context.Context, q *KeyQuery) (list.Page[ListedKey], error) {
	var none list.Page[ListedKey]
	set, err := r.Set(ctx)
	if err != nil {
		return none, err
	}
	if err := q.Read(set); err != nil {
		return none, err
	}
	for count := q.Count; ; count /= 2 {
		found, err := r.findOrdered(ctx, set, q.Filter, Order(q.Order), q.After, count)
		if _, invalid := errors.AsType[*policy.InvalidError](err); invalid {
			err = list.ErrCursor
		}
		if err != nil {
			return none, err
		}
		items, err := r.Listed(ctx, set, found.Subjects)
		if err != nil || count == 1 || !tooLarge(items) {
			return list.Page[ListedKey]{Items: items, Notes: q.notes(found, count), Next: found.Next}, err
		}
	}
}

// notes says which keys a list leaves out.
func (q *KeyQuery) notes(found FoundKeys, count int) []string {
	switch {
	case IsRanking(Order(q.Order)):
		return []string{RankingNote + " Sort by name for all keys."}
	case found.Next != "" && q.Filter.Computed() && len(found.Subjects) < count:
		return []string{"Searched " + limits.Number(int64(found.Scanned)) +
			" keys so far. Continue on the next page."}
	case q.Filter.State == Near && found.Next == "":
		return []string{"After a limit is lowered, a key is listed from its next call on."}
	}
	return nil
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
		all[i] = ListedKey{s.Key, append([]State{}, s.States()...), s.Deniers, StatesOf(set, s.Limits),
			recent[i], s}
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
