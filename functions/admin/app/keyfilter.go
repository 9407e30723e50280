package app

import (
	"slices"
	"strings"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/usage/statelist"
)

// KeyFilter says which keys are meant. The zero value means all.
type KeyFilter struct {
	Prefix string // of the name
	// Anywhere takes Prefix for any part of the name.
	Anywhere bool
	Plan     int    // number; 0 for any
	Group    string // empty for any
	State    State  // empty for any
	Tag      string // one that the key has; empty for any
}

// listed is the part of the filter that a list answers; the rest is looked up key by key.
func (f KeyFilter) listed() registry.Query {
	q := registry.Query{Prefix: f.Prefix, Plan: f.Plan, Tag: f.Tag, Group: f.Group}
	if f.Group == "" {
		q.List = stateLists[f.State]
	}
	if f.Anywhere {
		q.Prefix = ""
	}
	return q
}

// stateLists has the list that leads to the keys in a state.
var stateLists = map[State]registry.List{
	Overridden: registry.Overridden, Revoked: registry.Revoked, Expiring: registry.Expiring,
	Shadow: registry.Shadowed,
}

// Computed reports whether keys must be looked at one by one.
func (f KeyFilter) Computed() bool {
	return f.Tag != "" || f.Anywhere && f.Prefix != "" ||
		f.State != "" && (f.State != Overridden || f.Plan > 0 || f.Group != "") ||
		f.Group != "" && f.Plan > 0
}

// mayMean reports whether the filter can select a key of a set, by its record alone. It
// decides every state but those of which counts decide.
func (f KeyFilter) mayMean(set *policy.Set, k policy.Key) bool {
	plan, _ := set.Numbered(f.Plan)
	name, part := strings.ToLower(k.Name), strings.ToLower(f.Prefix)
	if f.Anywhere && !strings.Contains(name, part) || !f.Anywhere && !strings.HasPrefix(name, part) {
		return false
	}
	if f.State != "" && !f.counted() {
		s := NewSubject(set, k, limiter.Decision{}, time.Time{}, time.Now())
		if !s.Is(f.State) {
			return false
		}
	}
	return (f.Plan == 0 || k.Plan == plan.Name) && (f.Group == "" || k.Group == f.Group) &&
		(f.Tag == "" || slices.Contains(k.Tags, f.Tag))
}

// counted reports whether a key's counts or bans say whether it is in the filter's state.
func (f KeyFilter) counted() bool {
	_, counted := countedLists[f.State]
	return counted
}

// countedLists has the list that leads to the keys in a state of which counts decide.
var countedLists = map[State]statelist.List{
	Blocked: statelist.OverLimit, Banned: statelist.Banned, Near: statelist.NearLimit,
}

// cursor is the position behind a key.
func (f KeyFilter) cursor(k policy.Key) string {
	if f.counted() {
		return k.ID
	}
	return registry.Cursor(k)
}
