// Package enforce decides one call. A Checker finds the caller and its newest limits, and
// takes the call's cost from all of them or from none, in Valkey. A DenialCache answers
// callers that are known to be blocked without a round trip. A Breaker and Callers decide
// while Valkey does not answer. It reads the policy set and never writes it: that is
// package registry's part.
//
// A check tells the script which version of the set it knows. When the caller's bucket
// has a newer one, nothing is taken, the set is read again, and the check repeats. So a
// save acts on every check that starts after it was acknowledged.
package enforce

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
)

// Call is one API call by a caller who is known.
type Call struct {
	Kind    policy.Kind
	Subject string        // id of the caller; of an APIKey that of Secret
	Secret  apikey.Secret // with Kind APIKey alone
	Plan    string        // with Kind Token: the plan that the token names; may be empty
	Address netip.Addr    // of the client, for the lists of the Set; invalid when it is not known
	Network netip.Prefix  // the client's address as PerIP limits count it; invalid when it is not known
	Route   route.Call

	hash string // in place of Secret: what the record has
}

// Result is the answer to a Check.
type Result struct {
	Allowed         bool // what to answer, modes considered
	WouldAllow      bool // what would have been the answer if every limit were enforced
	CandidateAllows bool // false when the plan's candidate would have denied the call
	Cost            int64
	Now             time.Time    // the server's
	Limits          []LimitState // the caller's own; the shared ones too when those allowed the call
	ID              string       // the caller's
	Name            string       // empty for a caller without a record
	Plan            string
	Source          string // "override" or "plan"
	Rule            string // name of the Route that won; empty when none matches
	Settle          bool   // the Route's
	SetVersion      int64
	KeyVersion      int64     // 0 without a record
	BannedUntil     time.Time // zero when the caller is not banned; no limit was looked at then
	// Repeats says of a denial that every call like this one is denied too until
	// RetryAfter has passed, and leaves no trace: it counts for no ban, no candidate and
	// no limit, and none of the limits that denied it is shared, where what others took
	// may come back.
	Repeats bool
	// Degraded marks a decision made without the store. Now is then the clock of the one
	// who decided.
	Degraded bool

	Reservation string // for Settle, when the Route wants that and something was taken

	free           bool // nothing is taken for the call
	taken          []taken
	candidateAsked bool // a candidate looked at the call
	changes        []time.Time
	plan           int // number of the plan; 0 for an API key, whose record tells
}

// HoldsUntil is when what was read about the caller changes without an edit: it expires,
// its override ends, or the grace of a rotated secret does. It is zero when nothing of
// the kind is to come.
func (c *Result) HoldsUntil() time.Time {
	var next time.Time
	for _, t := range c.changes {
		if t.After(c.Now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// LimitState is a limit that a call was held against. Of one that is leased, Remaining is
// what the server knew to remain when the environment's lot was taken, and what is left
// of that; Reset is when the state is empty, which is a lease later than the window.
type LimitState struct {
	limiter.Usage
	Scope string      // "key", "route", "ip", "route-ip", "global" or "route-all"
	Mode  policy.Mode // Enforce or Shadow
}

// RetryAfter returns the time until the same call would be allowed if nobody else calls;
// 0 when it was allowed. A call that was denied because the store is away is worth trying
// again after a second.
func (c *Result) RetryAfter() time.Duration {
	longest := max(0, c.BannedUntil.Sub(c.Now))
	if c.Allowed {
		return 0
	}
	if c.Degraded && len(c.Limits) == 0 {
		return time.Second
	}
	for _, l := range c.Limits {
		if l.Mode == policy.Enforce {
			longest = max(longest, l.RetryAfter)
		}
	}
	return longest
}

// Binding returns the limit that the client should heed, and false when there is none: on
// a denial the enforced one with the longest RetryAfter, otherwise the one with the
// smallest share remaining.
func (c *Result) Binding() (binding LimitState, found bool) {
	for _, l := range c.Limits {
		if !c.Allowed && l.Mode != policy.Enforce {
			continue
		}
		if !found || limiter.Binds(c.Allowed, l.Usage, binding.Usage) {
			binding, found = l, true
		}
	}
	return binding, found
}

// Checker makes checks with a Set that it keeps. It is safe for concurrent use.
type Checker struct {
	client    valkey.Client
	pepper    apikey.Pepper
	addresses policyset.AddressKey
	seal      seal
	set       atomic.Pointer[compiledSet]
	recent    *recentCallers
	now       func() time.Time // clock of leases and of recent

	// Lease is how long a reservation can be settled, within setting.ReservationLease. It
	// is set before the first use.
	Lease time.Duration

	mu       sync.Mutex
	programs map[string][]limiter.Limit // by their text, since the same few come with every reply
}

// NewChecker returns a Checker on a connected client.
func NewChecker(client valkey.Client, pepper apikey.Pepper) *Checker {
	return &Checker{
		client: client, pepper: pepper, addresses: policyset.NewAddressKey(pepper), seal: newSeal(pepper), Lease: DefaultLease,
		recent: newRecentCallers(), now: time.Now, programs: map[string][]limiter.Limit{},
	}
}

// Load reads the Set, so that the first check need not.
func (c *Checker) Load(ctx context.Context) error {
	go checkScript.sha() // while the Set is on its way
	set, err := policyset.LoadSet(ctx, c.client)
	if err != nil {
		return c.keepLastGood(set, err)
	}
	return c.adopt(set)
}

// adopt makes a Set the one that checks go by, unless they go by a newer one.
func (c *Checker) adopt(set *policy.Set) error {
	compiled, err := compileSet(set)
	if err != nil {
		return c.keepLastGood(set, err)
	}
	for {
		old := c.set.Load()
		if old != nil && old.Version >= compiled.Version || c.set.CompareAndSwap(old, compiled) {
			return nil
		}
	}
}

// Set returns the Set that checks go by until they find a newer one; nil before Load.
func (c *Checker) Set() *policy.Set {
	if compiled := c.set.Load(); compiled != nil {
		return &compiled.Set
	}
	return nil
}

// ErrStale means that the caller's Set is older than the one in force. Nothing was taken.
var ErrStale = errors.New("policy: a newer set is in force")

var errNoSet = errors.New("policy: no set was read yet")

const maxReloads = 20 // for one check; every one needs a save of its own meanwhile

// Check finds the caller, its limits and the route's, and takes the route's cost from all
// of them or from none. The caller's own step goes first. The steps on shared limits
// follow in a second round trip when it allowed the call, or leave in the same flush for
// a caller whose last call was allowed here lately. One more round trip is made when the
// Set changed since the last check, and one when a shared limit denied and others have to
// be given back what they took. The commands of with leave in the first flush. A caller
// who may not call gets ErrUnknownKey or ErrRefused. Any other error means that no
// decision was made.
func (c *Checker) Check(ctx context.Context, call Call, with *Piggyback) (Result, error) {
	if c.set.Load() == nil {
		if err := c.Load(ctx); err != nil {
			return Result{}, err
		}
	}
	return c.renewing(ctx, func(set *compiledSet) (Result, error) {
		plan, rule, err := set.admit(call)
		if err != nil {
			return Result{}, cmp.Or(c.newest(ctx, set, call.Subject), err)
		}
		return c.check(ctx, set, call, plan, rule, with)
	})
}

// renewing repeats what finds that its Set is stale.
func (c *Checker) renewing(ctx context.Context, try func(*compiledSet) (Result, error)) (Result, error) {
	for range maxReloads {
		set := c.set.Load()
		checked, err := try(set)
		if !errors.Is(err, ErrStale) {
			return checked, err
		}
		if err := c.renew(ctx, set); err != nil {
			return Result{}, err
		}
	}
	return Result{}, ErrStale
}

// renew reads a newer Set than the stale one: where it is stored or, when a failover took
// back what was saved there last, in a mirror. Without either it fails with errStale:
// steps by the older Set would make states forget what those of the newer one count.
func (c *Checker) renew(ctx context.Context, stale *compiledSet) error {
	if err := c.Load(ctx); err != nil || c.set.Load() != stale {
		return err
	}
	set, _, err := policyset.NewestSet(ctx, c.client)
	if err != nil {
		return c.keepLastGood(set, err)
	}
	if err := c.adopt(set); err != nil || c.set.Load() != stale {
		return err
	}
	return ErrStale
}

// newest fails with errStale when a newer Set than this one is in force, so that nobody
// is refused by an old one.
func (c *Checker) newest(ctx context.Context, set *compiledSet, id string) error {
	b := keyspace.BucketOf(id)
	head, err := c.client.Do(ctx, c.client.B().Getrange().Key(policyset.CopyKey(b)).Start(0).End(4).Build()).AsBytes()
	switch {
	case err != nil:
		return fmt.Errorf("policy: check: %w", err)
	case len(head) == 5 && int64(binary.BigEndian.Uint32(head[1:])) > set.Version:
		return ErrStale
	}
	return nil
}

// routeState is what a route's limits on each caller count.
func routeState(id string, rule *compiledRoute) string { return keyspace.Of(id, "s"+rule.tag) }

func (c *Checker) ownStep(set *compiledSet, call Call, rule *compiledRoute, plan int) step {
	hash := call.hash
	if call.Kind == policy.APIKey && hash == "" {
		sum := c.pepper.Hash(call.Secret)
		hash = string(sum[:])
	}
	id := call.Subject
	bucket := keyspace.BucketOf(id)
	cost := rule.Cost
	if set.exempts(call.Address) {
		cost = 0
	}
	s := step{
		script: checkScript,
		keys:   []string{keyspace.Record(id), keyspace.State(id), policyset.CopyKey(bucket)},
		args:   []string{hash, strconv.FormatInt(cost, 10), strconv.FormatInt(set.Version, 10), strconv.Itoa(plan), set.reserving(rule)},
	}
	if set.wide || len(rule.perKey) > 0 && cost > 0 {
		return s.widened(set, id, rule, cost)
	}
	return s
}

// wideStep is ownStep in the script that tells the limits apart.
func (c *Checker) wideStep(set *compiledSet, call Call, rule *compiledRoute, plan int) step {
	s := c.ownStep(set, call, rule, plan)
	if s.script == wideScript {
		return s
	}
	return s.widened(set, call.Subject, rule, rule.Cost)
}

func (s step) widened(set *compiledSet, id string, rule *compiledRoute, cost int64) step {
	perKey := valkey.BinaryString(rule.perKey)
	if cost == 0 {
		perKey = ""
	}
	s.script = wideScript
	s.keys = append(s.keys, keyspace.Of(id, "sb"), keyspace.Of(id, "sd"), routeState(id, rule), keyspace.Of(id, "sk"))
	s.args = append(s.args, set.banArgs[0], set.banArgs[1], set.banArgs[2], perKey)
	return s
}

// parseOwn reads the reply about the caller itself. It is final when no limit can change
// it.
func (c *Checker) parseOwn(checked *Result, reply []byte, set *compiledSet, own step, rule *compiledRoute) (final bool, err error) {
	if len(reply) == 0 {
		return true, policy.ErrUnknownKey
	}
	kind, rest := reply[0], reply[1:]
	switch {
	case kind == 'S':
		return true, ErrStale
	case kind == 'B' && len(rest) >= 14:
		checked.BannedUntil, checked.Now, rest = policyset.TimeAt(rest), policyset.TimeAt(rest[7:]), rest[14:]
	case kind == 'O' && len(rest) >= 7:
		checked.Now, rest = policyset.TimeAt(rest), rest[7:]
	}
	of, rest, err := c.parsePublic(checked, set, rest)
	if err != nil {
		return true, err
	}
	switch kind {
	case 'B':
		return true, nil
	case 'O':
		checked.Allowed, checked.WouldAllow = true, true
		return false, nil
	case 'D':
		return false, checked.add(policy.ScopeKey, of.mode, of.limits, rest, own.keys[1:3], of.program)
	case 'W':
		return false, parseWide(checked, own, rule, of, rest)
	}
	return true, limiter.ErrReply
}

// public is what a reply says about the limits that hold for a caller.
type public struct {
	mode    policy.Mode
	limits  []limiter.Limit
	program limiter.Program
}

// parsePublic reads what find.lua calls public, and returns what follows it.
func (c *Checker) parsePublic(checked *Result, set *compiledSet, b []byte) (of public, rest []byte, err error) {
	if len(b) < 4+policyset.TimesLen+policyset.PublicLen {
		return public{}, nil, limiter.ErrReply
	}
	about := b[4+policyset.TimesLen:]
	name := int(binary.BigEndian.Uint16(about[13:]))
	if len(about) < policyset.PublicLen+name+4 {
		return public{}, nil, limiter.ErrReply
	}
	checked.changes = []time.Time{policyset.TimeAt(b[4:]), policyset.TimeAt(b[4+7:])}
	checked.KeyVersion, checked.Name = int64(binary.BigEndian.Uint32(about)), string(about[policyset.PublicLen:policyset.PublicLen+name])
	number := int(binary.BigEndian.Uint16(about[4:]))
	if number == 0 { // it came with the call
		number = checked.plan
	}
	if p, ok := set.Numbered(number); ok {
		checked.Plan = p.Name
	}
	source := about[policyset.PublicLen+name]
	checked.Source = [...]string{"plan", "override"}[source&1]
	if source&1 == 1 {
		checked.changes = append(checked.changes, policyset.TimeAt(about[6:]))
	}
	entry := about[policyset.PublicLen+name+1:]
	of.mode, of.limits, rest, err = c.parseEntry(entry)
	if err != nil {
		return public{}, nil, err
	}
	of.program = limiter.Program(entry[3 : len(entry)-len(rest)])
	return of, rest, nil
}

const maxPrograms = 4096

// parseEntry is decodeEntry with a memory.
func (c *Checker) parseEntry(b []byte) (policy.Mode, []limiter.Limit, []byte, error) {
	if len(b) < 3 || b[0] < 1 || int(b[0]) > len(policyset.Modes) {
		return "", nil, nil, limiter.ErrReply
	}
	end := 3 + int(binary.BigEndian.Uint16(b[1:]))
	if len(b) < end {
		return "", nil, nil, limiter.ErrReply
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if limits, known := c.programs[string(b[:end])]; known {
		return policyset.Modes[b[0]-1], limits, b[end:], nil
	}
	mode, limits, rest, err := policyset.DecodeEntry(b)
	if err != nil {
		return "", nil, nil, fmt.Errorf("%w: %w", limiter.ErrReply, err)
	}
	if len(c.programs) >= maxPrograms {
		clear(c.programs)
	}
	c.programs[string(b[:end])] = limits
	return mode, limits, rest, nil
}

func parseWide(checked *Result, own step, rule *compiledRoute, of public, b []byte) error {
	plan, b, ok := cut(b)
	if !ok {
		return limiter.ErrReply
	}
	routed, trial, ok := cut(b)
	if !ok {
		return limiter.ErrReply
	}
	if len(plan) > 0 {
		if err := checked.add(policy.ScopeKey, of.mode, of.limits, plan, own.keys[1:3], of.program); err != nil {
			return err
		}
	}
	if len(routed) > 0 {
		keys := []string{own.keys[5], own.keys[2]}
		if err := checked.add(policy.ScopeRoute, policy.OrEnforce(rule.Mode), rule.PerKey, routed, keys, rule.perKeyProgram()); err != nil {
			return err
		}
	}
	if !checked.Allowed { // the script took from both or from none
		checked.restore()
	}
	// no other limit is the caller's
	if checked.candidateAsked = len(trial) > 0; len(trial) >= 8 && checked.Now.IsZero() {
		checked.Now = policyset.TimeAt(trial[1:])
	}
	// a cost above the candidate is as denied as any other
	checked.CandidateAllows = !checked.candidateAsked || trial[0]&1 == 1
	return nil
}

func cut(b []byte) (part, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	end := 2 + int(binary.BigEndian.Uint16(b))
	if len(b) < end {
		return nil, nil, false
	}
	return b[2:end], b[end:], true
}

// add counts a decision in. Its limits are of one scope and mode; keys and program are
// what a give-back needs.
func (c *Result) add(scope string, mode policy.Mode, limits []limiter.Limit, reply []byte, keys []string, program limiter.Program) error {
	d, err := limiter.ParseReply(reply, limits)
	return c.count(scope, mode, d, err, taken{keys: keys, program: program, at: d.Now})
}

// addShared counts in what a shared limit says; claim is nil when it is not leased.
func (c *Result) addShared(s step, reply []byte, claim *claim) error {
	switch {
	case string(reply) == "S":
		return ErrStale
	case claim == nil:
		return c.add(s.shared.scope, s.shared.mode, s.shared.limits, reply, s.keys, s.shared.program)
	case claim.drawn:
		claim.draw(c.Now)
	}
	t := taken{keys: s.keys, program: s.shared.longest().program, at: claim.decision.Now, lot: claim.lot}
	if t.lot != nil {
		t.at = t.lot.at
	}
	return c.count(s.shared.scope, s.shared.mode, claim.decision, claim.err, t)
}

// count counts a decision in, or why there is none.
func (c *Result) count(scope string, mode policy.Mode, d limiter.Decision, err error, t taken) error {
	switch {
	case errors.Is(err, limiter.ErrCost) && mode != policy.Enforce: // denies nobody
		c.WouldAllow = false
		return nil
	case err != nil:
		return fmt.Errorf("policy: check: %w", err)
	}
	if d.Allowed && !c.free {
		t.first, t.count = int32(len(c.Limits)), int32(len(d.Limits))
		c.taken = append(c.taken, t)
	}
	c.Now = d.Now
	c.WouldAllow = c.WouldAllow && d.Allowed
	c.Allowed = c.Allowed && (d.Allowed || mode != policy.Enforce)
	for _, u := range d.Limits {
		c.Limits = append(c.Limits, LimitState{u, scope, mode})
	}
	return nil
}

// inert tells whether a denial that bans nobody leaves no trace, and came from the
// caller's own limits.
func (c *Result) inert() bool {
	for _, l := range c.Limits {
		own := l.Scope == policy.ScopeKey || l.Scope == policy.ScopeRoute
		if l.Limit.CountDenied || !own && l.RetryAfter > 0 && l.Mode == policy.Enforce {
			return false
		}
	}
	return !c.candidateAsked
}
