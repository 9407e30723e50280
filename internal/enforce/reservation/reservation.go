// Package reservation encodes what a call took as a signed text that travels with the
// call, and decodes it when the call is settled. The signing key is derived from the
// pepper. Package enforce imports it. It knows no limits, no Valkey and no clock.
package reservation

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// State is one of the states that a call can take from. Its number is part of the text.
type State int

// The states: first those of the caller, which are settled in one step, then shared ones.
const (
	Key State = iota
	Route
	IP
	RouteIP
	Global
	RouteAll
	Group
	states

	firstShared = IP
)

var scopes = [states]string{policy.ScopeKey, policy.ScopeRoute, policy.ScopeIP, policy.ScopeRouteIP,
	policy.ScopeGlobal, policy.ScopeRouteAll, policy.ScopeGroup}

// StateOf returns the state for limits of a scope. It panics for an unknown scope.
func StateOf(scope string) State {
	i := slices.Index(scopes[:], scope)
	if i < 0 {
		panic("reservation: no such scope: " + scope)
	}
	return State(i)
}

// Scope is the inverse of StateOf.
func (s State) Scope() string { return scopes[s] }

// Reservation is what a settlement needs to know about a call. It is not stored. It names
// no limits: a settlement applies to the newest ones.
type Reservation struct {
	Subject string // id of the caller
	Plan    int    // number of the plan, for a caller whose record has none
	Cost    int64
	// SettleMax bounds what a settlement charges shared limits. It is fixed when the cost
	// is taken, so no edit of the rule raises it.
	SettleMax int64
	Expires   time.Time
	Rule      string // tag of the route rule; empty for none
	Network   string // subject of the client's network; empty unless its limits took the cost
	Group     string // subject of the caller's group; empty unless its limits took the cost
	GroupPlan int    // number of the plan with the limits on Group

	took   byte                            // bit i: State i took the cost
	spared [states]byte                    // by State: mask of limits that did not take it
	own    time.Time                       // when the states of the caller took it
	shared [states - firstShared]time.Time // when each shared state took it
	nonce  [8]byte
}

// New returns a Reservation of a call that has taken nothing yet.
func New(subject string, plan int, cost int64) Reservation {
	r := Reservation{Subject: subject, Plan: plan, Cost: cost}
	_, _ = rand.Read(r.nonce[:]) // never fails
	return r
}

// Took records that a state took the cost at a time of the server. spared is the mask of
// limits in shadow mode that did not, as limiter.Exceeded returns it.
func (r *Reservation) Took(s State, at time.Time, spared byte) {
	r.took |= 1 << s
	r.spared[s] = spared
	if s < firstShared {
		r.own = at
	} else {
		r.shared[s-firstShared] = at
	}
}

// Empty reports whether no state took the cost.
func (r *Reservation) Empty() bool { return r.took == 0 }

// Has reports whether a state took the cost.
func (r *Reservation) Has(s State) bool { return r.took&(1<<s) != 0 }

// At returns when a state took the cost. The states of the caller took it together.
func (r *Reservation) At(s State) time.Time {
	if s < firstShared {
		return r.own
	}
	return r.shared[s-firstShared]
}

// Spared returns the mask that Took recorded for a state.
func (r *Reservation) Spared(s State) byte { return r.spared[s] }

// Mark returns the name of the state that marks the reservation as settled.
func (r *Reservation) Mark() string { return "sm" + base64.RawURLEncoding.EncodeToString(r.nonce[:]) }

const (
	prefix    = "tgr_"
	format    = 1
	maxLength = 512 // bytes of a text
)

// Seal is the key that reservations are signed with.
type Seal []byte

// NewSeal derives the key from the pepper.
func NewSeal(pepper apikey.Pepper) Seal { return pepper.Derive("reservations") }

func (s Seal) sum(data []byte) []byte {
	mac := hmac.New(sha256.New, s)
	mac.Write(data)
	return mac.Sum(nil)
}

// Write encodes and signs a reservation. The text is a prefix and, in base64:
//
//   - 1 byte format, 1 byte took, 2 bytes plan, 4 bytes cost, 7 bytes expiry;
//   - 7 bytes time of the caller's step, 7 bytes time of each shared state that took the
//     cost, except the group's;
//   - 8 bytes nonce;
//   - subject, rule and network, each with 1 byte length;
//   - 4 bytes SettleMax;
//   - if limits on a group took the cost: 7 bytes time, 2 bytes plan, and the group with
//     1 byte length;
//   - spared, unless it is 0;
//   - 32 bytes HMAC-SHA-256 of all that.
//
// Releases before SettleMax write nothing after the network, and ignore what follows.
func (s Seal) Write(r *Reservation) string {
	b := make([]byte, 0, 256)
	b = append(b, format, r.took)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Plan))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Cost))
	b = policyset.AppendTime(policyset.AppendTime(b, r.Expires), r.own)
	for state := firstShared; state < Group; state++ {
		if r.Has(state) {
			b = policyset.AppendTime(b, r.At(state))
		}
	}
	b = append(b, r.nonce[:]...)
	for _, text := range []string{r.Subject, r.Rule, r.Network} {
		b = append(append(b, byte(len(text))), text...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(r.SettleMax))
	if r.Has(Group) {
		b = policyset.AppendTime(b, r.At(Group))
		b = binary.BigEndian.AppendUint16(b, uint16(r.GroupPlan))
		b = append(append(b, byte(len(r.Group))), r.Group...)
	}
	if r.spared != [states]byte{} {
		b = append(b, r.spared[:]...)
	}
	return prefix + base64.RawURLEncoding.EncodeToString(append(b, s.sum(b)...))
}

// Read is the inverse of Write. ok is false if this key did not sign the text.
func (s Seal) Read(text string) (r *Reservation, ok bool) {
	encoded, ok := strings.CutPrefix(text, prefix)
	if !ok || len(text) > maxLength {
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(b) < sha256.Size {
		return nil, false
	}
	b, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if !hmac.Equal(sum, s.sum(b)) || !bytes.HasPrefix(b, []byte{format}) {
		return nil, false
	}
	return parse(b), true
}

// parse decodes b, which Write is known to have encoded.
func parse(b []byte) *Reservation {
	r := &Reservation{took: b[1], Plan: int(binary.BigEndian.Uint16(b[2:])),
		Cost: int64(binary.BigEndian.Uint32(b[4:]))}
	r.Expires, r.own, b = policyset.TimeAt(b[8:]), policyset.TimeAt(b[15:]), b[22:]
	for state := firstShared; state < Group; state++ {
		if r.Has(state) {
			r.shared[state-firstShared], b = policyset.TimeAt(b), b[7:]
		}
	}
	b = b[copy(r.nonce[:], b):]
	for _, text := range []*string{&r.Subject, &r.Rule, &r.Network} {
		end := 1 + int(b[0])
		*text, b = string(b[1:end]), b[end:]
	}
	if r.SettleMax = policy.SettleMaxOf(r.Cost); len(b) >= 4 {
		r.SettleMax, b = int64(binary.BigEndian.Uint32(b)), b[4:]
	}
	if r.Has(Group) {
		r.shared[Group-firstShared], r.GroupPlan = policyset.TimeAt(b), int(binary.BigEndian.Uint16(b[7:]))
		end := 10 + int(b[9])
		r.Group, b = string(b[10:end]), b[end:]
	}
	copy(r.spared[:], b)
	return r
}
