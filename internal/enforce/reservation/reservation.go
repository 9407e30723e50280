// Package reservation writes what a call took as a text that travels with the call, and
// reads it when the call is settled. A text is signed with a key made from the pepper.
// Package enforce imports it. It knows no limits, no Valkey and no clock.
package reservation

import (
	"crypto/rand"
	"encoding/base64"
	"slices"
	"time"

	"tidegate/internal/policy"
)

// State is one of the states that a call takes from and that can be settled: those of the
// caller, in one step, then those on others. Its number is part of the text.
type State int

// The states.
const (
	Key State = iota
	Route
	Candidate
	IP
	RouteIP
	Global
	RouteAll
	Group
	states

	firstShared = IP
)

var scopes = [states]string{policy.ScopeKey, policy.ScopeRoute, "candidate", policy.ScopeIP,
	policy.ScopeRouteIP, policy.ScopeGlobal, policy.ScopeRouteAll, policy.ScopeGroup}

// StateOf returns the state that limits of a scope count in.
func StateOf(scope string) State {
	i := slices.Index(scopes[:], scope)
	if i < 0 {
		panic("reservation: no such scope: " + scope)
	}
	return State(i)
}

// Scope is the inverse of StateOf.
func (s State) Scope() string { return scopes[s] }

// Reservation is what a settlement needs to know of a call. It is stored nowhere. It
// names no limits: a settlement applies to the newest ones.
type Reservation struct {
	Subject string // id of the caller
	Plan    int    // number of the plan of a subject without its own
	Cost    int64
	// SettleMax bounds the charge of a settlement to limits shared by several callers. It
	// is fixed when the cost is taken, so no edit of the rule raises it.
	SettleMax int64
	Expires   time.Time
	Rule      string // tag of the route; empty without
	Network   string // subject of the client's network; empty unless one of its limits took
	Group     string // subject of the caller's group; empty unless its limits took
	GroupPlan int    // number of the plan that they are of

	took   byte         // bit i: State i took
	spared [states]byte // by State
	own    time.Time    // when the states of the caller took
	shared [states - firstShared]time.Time
	nonce  [8]byte
}

// New returns a Reservation of a call that took nothing yet.
func New(subject string, plan int, cost int64) Reservation {
	r := Reservation{Subject: subject, Plan: plan, Cost: cost}
	_, _ = rand.Read(r.nonce[:]) // never fails
	return r
}

// Took notes that a state took the cost at a time of the server. spared has the limits in
// shadow mode that gave nothing, as limiter.Exceeded has them.
func (r *Reservation) Took(s State, at time.Time, spared byte) {
	r.took |= 1 << s
	r.spared[s] = spared
	if s < firstShared {
		r.own = at
	} else {
		r.shared[s-firstShared] = at
	}
}

// Empty reports whether no state took.
func (r *Reservation) Empty() bool { return r.took == 0 }

// Has reports whether a state took.
func (r *Reservation) Has(s State) bool { return r.took&(1<<s) != 0 }

// At returns when a state took; those of the caller did at one time.
func (r *Reservation) At(s State) time.Time {
	if s < firstShared {
		return r.own
	}
	return r.shared[s-firstShared]
}

// Spared returns what Took was told of a state.
func (r *Reservation) Spared(s State) byte { return r.spared[s] }

// Mark names the note that the reservation was settled. It counts as state: it expires.
func (r *Reservation) Mark() string { return "sm" + base64.RawURLEncoding.EncodeToString(r.nonce[:]) }
