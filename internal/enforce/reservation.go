package enforce

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// DefaultReservationExpiry is how long a reservation can be settled by default.
const DefaultReservationExpiry = 10 * time.Minute

var (
	// ErrReservation means that a text is not a reservation.
	ErrReservation = errors.New("not a reservation")
	// ErrExpired means that a reservation has expired: what it took stays taken until
	// its window passes.
	ErrExpired = errors.New("reservation has expired")
	// ErrSettled means that a reservation was settled before. It is settled once.
	ErrSettled = errors.New("reservation is settled already")
)

// reservation holds what Settle needs to know of a call. It travels with the call and is
// stored nowhere. It names no limits: Settle applies to the newest ones.
type reservation struct {
	subject string
	plan    int // of a subject without its own plan
	cost    int64
	// settleMax bounds the charge of a settlement to limits shared by several callers. It
	// is fixed when the cost is taken, so no edit of the rule raises it.
	settleMax int64
	expires   time.Time
	rule      string // tag of the route; empty without
	network   string // subject of the client's network; empty unless one of its limits took
	took      byte   // bit i: the state of scopeOf[i] took
	// spared has a byte for each of these states: the limits in shadow mode that gave
	// nothing, by their places then
	spared    [len(scopeOf)]byte
	own       time.Time
	at        [5]time.Time // of the limits on others, in the order of scopeOf
	group     string       // subject of the caller's group; empty unless its limits took
	groupPlan int          // number of the plan that they are of
	nonce     [8]byte
}

// The states that can be settled: those of the caller, in one step, then those on others.
const (
	tookKey = iota
	tookRoute
	tookCandidate
	tookIP
	tookRouteIP
	tookGlobal
	tookRouteAll
	tookGroup
	firstShared = tookIP
)

var scopeOf = [...]string{
	policy.ScopeKey,
	policy.ScopeRoute,
	"candidate",
	policy.ScopeIP,
	policy.ScopeRouteIP,
	policy.ScopeGlobal,
	policy.ScopeRouteAll,
	policy.ScopeGroup,
}

func (r *reservation) has(state int) bool { return r.took&(1<<state) != 0 }

// reservation returns what settles a call; empty when nothing was taken.
func (c *Checker) reservation(checked *Result, call Call, rule *compiledRoute) string {
	r := c.reserved(checked, checked.taken, call, rule)
	if r.took == 0 {
		return ""
	}
	if checked.candidateAsked && checked.CandidateAllows && r.has(tookKey) {
		r.took |= 1 << tookCandidate
	}
	r.expires = checked.Now.Add(c.ReservationExpiry)
	return c.seal.write(&r)
}

// reserved lists what settles some of what a call took.
func (c *Checker) reserved(checked *Result, all []taken, call Call, rule *compiledRoute) reservation {
	r := reservation{subject: call.Subject, plan: checked.plan, cost: checked.Cost, rule: rule.tag}
	r.settleMax = rule.SettleBound(r.cost)
	for _, t := range all {
		state := stateOf(checked.Limits[t.first].Scope)
		r.took |= 1 << state
		r.spared[state] = t.spared(checked)
		if state < firstShared {
			r.own = t.at
		} else {
			r.at[state-firstShared] = t.at
		}
		if state == tookIP || state == tookRouteIP {
			r.network = c.addresses.ID(call.Network)
		}
		if state == tookGroup {
			r.group, r.groupPlan = policy.GroupID(checked.group.name), checked.group.plan
		}
	}
	_, _ = rand.Read(r.nonce[:]) // never fails
	return r
}

func stateOf(scope string) int {
	for i, s := range scopeOf {
		if s == scope {
			return i
		}
	}
	panic("policy: no such scope: " + scope)
}

const (
	reservationPrefix = "tgr_"
	reservationFormat = 1
	maxReservation    = 512
)

// seal is the key that reservations are signed with.
type seal []byte

func newSeal(pepper apikey.Pepper) seal { return pepper.Derive("reservations") }

func (s seal) sum(data []byte) []byte {
	mac := hmac.New(sha256.New, s)
	mac.Write(data)
	return mac.Sum(nil)
}

// write lays a reservation out: 1 byte format, 1 byte took, 2 bytes plan, 4 bytes cost, 7
// bytes expiry, 7 bytes time of the caller's step, 7 bytes for each limit on others but
// groups that took, 8 bytes at random, then three texts with 1 byte length, 4 bytes
// settleMax, and 32 bytes HMAC-SHA-256 of all that; in base64. When limits on a group
// took, 7 bytes time, 2 bytes plan and a text stand after settleMax; then spared, unless
// it is 0. Releases before settleMax end with the texts, write none, and pass over what
// follows.
func (s seal) write(r *reservation) string {
	b := make([]byte, 0, 256)
	b = append(b, reservationFormat, r.took)
	b = binary.BigEndian.AppendUint16(b, uint16(r.plan))
	b = binary.BigEndian.AppendUint32(b, uint32(r.cost))
	b = policyset.AppendTime(policyset.AppendTime(b, r.expires), r.own)
	for i, at := range r.at[:tookGroup-firstShared] {
		if r.has(firstShared + i) {
			b = policyset.AppendTime(b, at)
		}
	}
	b = append(b, r.nonce[:]...)
	for _, text := range []string{r.subject, r.rule, r.network} {
		b = append(append(b, byte(len(text))), text...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(r.settleMax))
	if r.has(tookGroup) {
		b = policyset.AppendTime(b, r.at[tookGroup-firstShared])
		b = binary.BigEndian.AppendUint16(b, uint16(r.groupPlan))
		b = append(append(b, byte(len(r.group))), r.group...)
	}
	if r.spared != [len(scopeOf)]byte{} {
		b = append(b, r.spared[:]...)
	}
	return reservationPrefix + base64.RawURLEncoding.EncodeToString(append(b, s.sum(b)...))
}

// read is the inverse of write. It fails with ErrReservation.
func (s seal) read(text string) (*reservation, error) {
	encoded, ok := strings.CutPrefix(text, reservationPrefix)
	if !ok || len(text) > maxReservation {
		return nil, ErrReservation
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(b) < sha256.Size {
		return nil, ErrReservation
	}
	b, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if !hmac.Equal(sum, s.sum(b)) || !bytes.HasPrefix(b, []byte{reservationFormat}) {
		return nil, ErrReservation
	}
	return parseReservation(b), nil
}

// parseReservation reads what write laid out; the signature says that it did.
func parseReservation(b []byte) *reservation {
	r := &reservation{took: b[1], plan: int(binary.BigEndian.Uint16(b[2:])),
		cost: int64(binary.BigEndian.Uint32(b[4:]))}
	r.expires, r.own, b = policyset.TimeAt(b[8:]), policyset.TimeAt(b[15:]), b[22:]
	for i := range r.at[:tookGroup-firstShared] {
		if r.has(firstShared + i) {
			r.at[i], b = policyset.TimeAt(b), b[7:]
		}
	}
	b = b[copy(r.nonce[:], b):]
	for _, text := range []*string{&r.subject, &r.rule, &r.network} {
		end := 1 + int(b[0])
		*text, b = string(b[1:end]), b[end:]
	}
	if r.settleMax = policy.SettleMaxOf(r.cost); len(b) >= 4 {
		r.settleMax, b = int64(binary.BigEndian.Uint32(b)), b[4:]
	}
	if r.has(tookGroup) {
		r.at[tookGroup-firstShared], r.groupPlan = policyset.TimeAt(b), int(binary.BigEndian.Uint16(b[7:]))
		end := 10 + int(b[9])
		r.group, b = string(b[10:end]), b[end:]
	}
	copy(r.spared[:], b)
	return r
}

// mark names the note that a reservation was settled. It counts as state: it expires.
func (r *reservation) mark() string { return "sm" + base64.RawURLEncoding.EncodeToString(r.nonce[:]) }

// Reserve takes a cost from the limits of a key by its id, for a backend that calls by
// itself, and returns what a Check of that cost would with a reservation to settle. route
// is the name of a rule whose limits on each key and on all keys apply too; empty for
// none. It fails as Check does, with ErrNotFound for an unknown id or route, and with
// limiter.ErrCost for a cost below 1 or above a limit. The rule's SettleMax bounds the
// settlement, but never below cost; without one the bound is DefaultSettleMax times cost,
// whatever the rule's own cost is.
func (c *Checker) Reserve(ctx context.Context, id, route string, cost int64) (Result, error) {
	if cost < 1 || cost > limiter.MaxRequests {
		return Result{}, fmt.Errorf("%w: %d is not 1 to %d", limiter.ErrCost, cost,
			int64(limiter.MaxRequests))
	}
	call, err := c.byID(ctx, id)
	if err != nil {
		return Result{}, err
	}
	if c.set.Load() == nil {
		if err := c.Load(ctx); err != nil {
			return Result{}, err
		}
	}
	return c.renewing(ctx, func(set *compiledSet) (Result, error) {
		rule := set.fallback
		if route != "" {
			if rule = set.named(route); rule == nil {
				return Result{}, errors.Join(policy.ErrNotFound, c.newest(ctx, set, id))
			}
		}
		plan, err := set.planFor(call.Kind, "")
		if err != nil {
			return Result{}, errors.Join(err, c.newest(ctx, set, id))
		}
		priced := *rule
		priced.Cost, priced.Settle = cost, true
		return c.check(ctx, set, call, plan, &priced, nil)
	})
}

// byID is a call by a subject that has a record.
func (c *Checker) byID(ctx context.Context, id string) (Call, error) {
	record, err := c.client.Do(ctx, c.client.B().Get().Key(keyspace.Record(id)).Build()).AsBytes()
	switch {
	case valkey.IsValkeyNil(err):
		return Call{}, policy.ErrNotFound
	case err != nil:
		return Call{}, fmt.Errorf("policy: reserve: %w", err)
	}
	k, secrets, err := policyset.DecodeRecord(id, record)
	if err != nil {
		return Call{}, err
	}
	call := Call{Kind: k.Kind, Subject: id}
	if k.Kind == policy.APIKey {
		call.hash = string(secrets.Current[:])
	}
	return call, nil
}

func (c *compiledSet) named(name string) *compiledRoute {
	for _, r := range c.routes {
		if r.Name == name {
			return r
		}
	}
	return nil
}
