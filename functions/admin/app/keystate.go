package app

import (
	"slices"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// State is something out of the ordinary about a key.
type State string

// The states of keys.
const (
	Overridden State = "overridden" // has an override, in force or past
	Blocked    State = "blocked"    // a call would be denied now
	Near       State = "near"       // a limit is nearly used up
	Shadow     State = "shadow"     // in shadow, or off
	Banned     State = "banned"
	Expiring   State = "expiring" // expired, or expires soon
	Revoked    State = State(policy.Revoked)
	Unreadable State = State(policy.Unreadable)
)

// States lists the states, in the order in which they are offered.
func States() []State {
	return []State{Overridden, Blocked, Near, Shadow, Banned, Expiring, Revoked, Unreadable}
}

// ExpiresSoon is how long before its end an expiry or an override is shown as near.
const ExpiresSoon = 30 * 24 * time.Hour

// Subject is a key, what holds for it, and what a call of it would get now.
type Subject struct {
	policy.Key
	Effective   policy.Effective
	Now         limiter.Decision
	BannedUntil time.Time // by hand or by the policy; zero or past when it is not banned
	At          time.Time // of this function's clock, to which expiries are compared
}

// NewSubject puts together what is known of a key.
func NewSubject(set *policy.Set, k policy.Key, now limiter.Decision, banned, at time.Time) Subject {
	e, _ := set.Effective(k, at)
	return Subject{k, e, now, banned, at}
}

// States returns every state that the key is in. Of one that is not active nothing else
// is to be said.
func (s Subject) States() []State {
	if s.Status != policy.Active {
		return []State{State(s.Status)}
	}
	var all []State
	for _, c := range []struct {
		state State
		in    bool
	}{
		{Banned, s.BannedUntil.After(s.At)},
		{Expiring, !s.Expires.IsZero() && s.Expires.Sub(s.At) < ExpiresSoon},
		{Blocked, s.blocked()},
		{Near, !s.blocked() && s.near()},
		{Shadow, s.Effective.Mode == policy.Shadow || s.Effective.Mode == policy.Off},
		{Overridden, s.Override != nil},
	} {
		if c.in {
			all = append(all, c.state)
		}
	}
	return all
}

func (s Subject) blocked() bool {
	return len(s.Now.Limits) > 0 && !s.Now.Allowed && s.Effective.Mode == policy.Enforce
}

func (s Subject) near() bool {
	return slices.ContainsFunc(s.Now.Limits, limiter.Usage.NearlyUsedUp)
}

// Is reports whether the key is in a state; every key is in none.
func (s Subject) Is(state State) bool { return state == "" || slices.Contains(s.States(), state) }

// Percent is rounded so that only none is 0 and only all is 100.
func Percent(used, of int64) int64 {
	if used <= 0 || of <= 0 {
		return 0
	}
	if used >= of {
		return 100
	}
	return max(1, min(99, used*100/of))
}
