package policy

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
	"tidegate/internal/keyspace"
	"tidegate/internal/limiter"
	"tidegate/internal/route"
)

// Call is one API call by a caller who is known.
type Call struct {
	Kind    Kind
	Subject string        // id of the caller; of an APIKey that of Secret
	Secret  apikey.Secret // with Kind APIKey alone
	Plan    string        // with Kind Token: the plan that the token names; may be empty
	Address netip.Addr    // of the client, for the lists of the Set; invalid when it is not known
	Network netip.Prefix  // the client's address as PerIP limits count it; invalid when it is not known
	Route   route.Call

	hash string // in place of Secret: what the record has
}

// Checked is the answer to a Check.
type Checked struct {
	Allowed     bool // what to answer, modes considered
	Would       bool // what would have been the answer if every limit were enforced
	Trial       bool // false when the plan's candidate would have denied the call
	Cost        int64
	Now         time.Time // the server's
	Limits      []Applied // every limit that was looked at, the caller's first
	ID          string    // the caller's
	Name        string    // empty for a caller without a record
	Plan        string
	Source      string // "override" or "plan"
	Rule        string // name of the Route that won; empty when none matches
	Settle      bool   // the Route's
	SetVersion  int64
	KeyVersion  int64     // 0 without a record
	BannedUntil time.Time // zero when the caller is not banned; no limit was looked at then
	// Repeats says of a denial that every call like this one is denied too until RetryAfter has passed, and leaves no trace: it counts for no ban, no
	// candidate and no limit, and none of the limits that denied it is on another subject than the caller, where what others took may come back.
	Repeats bool
	// Degraded marks a decision made without the store. Now is then the clock of the one who decided.
	Degraded bool

	Reservation string // for Settle, when the Route wants that and something was taken

	free    bool // nothing is taken for the call
	taken   []taken
	onTrial bool // a candidate looked at the call
	changes []time.Time
	plan    int // number of the plan; 0 for an API key, whose record tells
}

// HoldsUntil is when what was read about the caller changes without an edit: it expires, its override ends, or the grace of a rotated secret does. It
// is zero when nothing of the kind is to come.
func (c *Checked) HoldsUntil() time.Time {
	var next time.Time
	for _, t := range c.changes {
		if t.After(c.Now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// Applied is a limit that a call was held against. Of one that is leased, Remaining is what the server knew to remain when the environment's lot was
// taken, and what is left of that; Reset is when the state is empty, which is a lease later than the window.
type Applied struct {
	limiter.Usage
	Scope string // "key", "route", "ip", "route-ip", "global" or "route-all"
	Mode  Mode   // Enforce or Shadow
}

// RetryAfter returns the time until the same call would be allowed if nobody else calls; 0 when it was allowed. A call that was denied because the
// store is away is worth trying again after a second.
func (c *Checked) RetryAfter() time.Duration {
	longest := max(0, c.BannedUntil.Sub(c.Now))
	if c.Allowed {
		return 0
	}
	if c.Degraded && len(c.Limits) == 0 {
		return time.Second
	}
	for _, l := range c.Limits {
		if l.Mode == Enforce {
			longest = max(longest, l.RetryAfter)
		}
	}
	return longest
}

// Binding returns the limit that the client should heed, and false when there is none: on a denial the enforced one with the longest RetryAfter,
// otherwise the one with the smallest share remaining.
func (c *Checked) Binding() (binding Applied, found bool) {
	for _, l := range c.Limits {
		if !c.Allowed && l.Mode != Enforce {
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
	addresses addressKey
	seal      seal
	set       atomic.Pointer[compiledSet]
	now       func() time.Time // clock of the leases that are held here

	// Lease is how long a reservation can be settled, within setting.ReservationLease. It is set before the first use.
	Lease time.Duration

	mu       sync.Mutex
	programs map[string][]limiter.Limit // by their text, since the same few come with every reply
}

// NewChecker returns a Checker on a connected client.
func NewChecker(client valkey.Client, pepper apikey.Pepper) *Checker {
	return &Checker{
		client: client, pepper: pepper, addresses: newAddressKey(pepper), seal: newSeal(pepper), Lease: DefaultLease,
		now: time.Now, programs: map[string][]limiter.Limit{},
	}
}

// Load reads the Set, so that the first check need not.
func (c *Checker) Load(ctx context.Context) error {
	go checkScript.sha() // while the Set is on its way
	set, err := loadSet(ctx, c.client)
	if err != nil {
		return c.outlive(set, err)
	}
	return c.adopt(set)
}

// adopt makes a Set the one that checks go by, unless they go by a newer one.
func (c *Checker) adopt(set *Set) error {
	compiled, err := compileSet(set)
	if err != nil {
		return c.outlive(set, err)
	}
	for {
		old := c.set.Load()
		if old != nil && old.Version >= compiled.Version || c.set.CompareAndSwap(old, compiled) {
			return nil
		}
	}
}

// Set returns the Set that checks go by until they find a newer one; nil before Load.
func (c *Checker) Set() *Set {
	if compiled := c.set.Load(); compiled != nil {
		return &compiled.Set
	}
	return nil
}

// errStale means that the caller's Set is older than the one in force. Nothing was taken.
var errStale = errors.New("policy: a newer set is in force")

var errNoSet = errors.New("policy: no set was read yet")

const maxReloads = 20 // for one check; every one needs a save of its own meanwhile

// Check finds the caller, its limits and the route's, and takes the route's cost from all of them or from none, in one round trip; in a second one
// when the Set changed since the last check, and when what some limits gave must be given back because others denied. with leaves in the same flush.
// A caller who may not call gets ErrUnknownKey or ErrRefused. Any other error means that no decision was made.
func (c *Checker) Check(ctx context.Context, call Call, with *Passengers) (Checked, error) {
	if c.set.Load() == nil {
		if err := c.Load(ctx); err != nil {
			return Checked{}, err
		}
	}
	return c.renewing(ctx, func(set *compiledSet) (Checked, error) {
		plan, rule, err := set.admit(call)
		if err != nil {
			return Checked{}, cmp.Or(c.newest(ctx, set, call.Subject), err)
		}
		return c.check(ctx, set, call, plan, rule, with)
	})
}

// renewing repeats what finds that its Set is stale.
func (c *Checker) renewing(ctx context.Context, try func(*compiledSet) (Checked, error)) (Checked, error) {
	for range maxReloads {
		set := c.set.Load()
		checked, err := try(set)
		if !errors.Is(err, errStale) {
			return checked, err
		}
		if err := c.renew(ctx, set); err != nil {
			return Checked{}, err
		}
	}
	return Checked{}, errStale
}

// renew reads a newer Set than the stale one: where it is stored or, when a failover took back what was saved there last, in a mirror. Without either
// it fails with errStale: steps by the older Set would make states forget what those of the newer one count.
func (c *Checker) renew(ctx context.Context, stale *compiledSet) error {
	if err := c.Load(ctx); err != nil || c.set.Load() != stale {
		return err
	}
	set, _, err := newestSet(ctx, c.client)
	if err != nil {
		return c.outlive(set, err)
	}
	if err := c.adopt(set); err != nil || c.set.Load() != stale {
		return err
	}
	return errStale
}

func (c *Checker) check(ctx context.Context, set *compiledSet, call Call, plan int, rule *compiledRoute, with *Passengers) (Checked, error) {
	steps := []step{c.ownStep(set, call, rule, plan)}
	free := rule.Cost == 0 || set.exempts(call.Address)
	if !free {
		steps = append(steps, set.sideSteps(call, rule, c.addresses)...)
	}
	claims := c.claim(set, steps[1:], rule.Cost)
	replies, err := c.flush(ctx, claims.sent(steps), with)
	replies = claims.land(replies)
	if err == nil && limiter.ReplyCostTooHigh(replies[0]) { // the short script does not say for whom: in shadow it is in nobody's way
		steps[0] = c.wideStep(set, call, rule, plan)
		replies[0], err = c.run(ctx, steps[0].script, steps[0].keys, steps[0].args)
		switch {
		case valkey.IsValkeyNil(err):
			err = nil
		case err != nil:
			err = fmt.Errorf("policy: check: %w", err)
		}
	}
	checked := Checked{
		Allowed: true, Would: true, Trial: true,
		ID: call.Subject, Rule: rule.Name, Settle: rule.Settle, Cost: rule.Cost, SetVersion: set.Version, plan: plan, free: free,
	}
	final, told := c.parse(&checked, replies, set, steps, claims, rule)
	if err != nil { // of some steps there is no reply; the others have taken
		c.giveBack(ctx, &checked)
		return Checked{}, err
	}
	err = told
	if final || err != nil {
		checked.Allowed, checked.Would = false, false
	} else if checked.free {
		checked.Allowed, checked.Would, checked.Trial = true, true, true
	}
	if !checked.Allowed {
		c.giveBack(ctx, &checked)
		checked.Repeats = err == nil && (!checked.BannedUntil.IsZero() || set.Bans == nil && checked.inert())
	} else if rule.Settle {
		checked.Reservation = c.reservation(&checked, call, rule)
	}
	return checked, err
}

// parse reads the replies of all steps into checked. It is final when no limit can change what the caller's own reply says.
func (c *Checker) parse(checked *Checked, replies [][]byte, set *compiledSet, steps []step, claims claims, rule *compiledRoute) (
	final bool, err error,
) {
	final, err = c.parseOwn(checked, replies[0], set, steps[0], rule)
	for i, s := range steps[1:] {
		sideErr := checked.addSide(s, replies[i+1], claims.of(i))
		if err == nil {
			err = sideErr // that nobody of this kind may call says more
		}
	}
	return final, err
}

// newest fails with errStale when a newer Set than this one is in force, so that nobody is refused by an old one.
func (c *Checker) newest(ctx context.Context, set *compiledSet, id string) error {
	b := keyspace.BucketOf(id)
	head, err := c.client.Do(ctx, c.client.B().Getrange().Key(copyKey(b)).Start(0).End(4).Build()).AsBytes()
	switch {
	case err != nil:
		return fmt.Errorf("policy: check: %w", err)
	case len(head) == 5 && int64(binary.BigEndian.Uint32(head[1:])) > set.Version:
		return errStale
	}
	return nil
}

// step is one script run on one subject.
type step struct {
	script *script
	keys   []string
	args   []string
	side   *side // nil for the caller's own
}

// flush sends every step in one flush and returns the replies. A nil reply is an unknown caller, or with an error none.
func (c *Checker) flush(ctx context.Context, steps []step, with *Passengers) (replies [][]byte, failed error) {
	commands := make([]valkey.Completed, 0, len(steps)+4)
	for _, s := range steps {
		commands = append(commands, s.script.command(c.client, s.keys, s.args))
	}
	riders := with.board()
	var results []valkey.ValkeyResult
	if len(steps) == 1 && len(riders) == 0 {
		results = []valkey.ValkeyResult{c.client.Do(ctx, commands[0])}
	} else {
		results = c.client.DoMulti(ctx, append(commands, riders...)...)
	}
	if len(riders) > 0 {
		with.done(results[len(steps):])
	}
	replies = make([][]byte, len(steps))
	for i, s := range steps {
		reply, err := results[i].AsBytes()
		if missing(err) {
			reply, err = c.client.Do(ctx, s.script.whole(c.client, s.keys, s.args)).AsBytes()
		}
		if err == nil || valkey.IsValkeyNil(err) {
			replies[i] = reply
		} else if failed == nil {
			failed = fmt.Errorf("policy: check: %w", err)
		}
	}
	return replies, failed
}

// routeState is what a route's limits on each caller count.
func routeState(id string, rule *compiledRoute) string { return keyspace.Of(id, "s"+rule.tag) }

func (c *Checker) ownStep(set *compiledSet, call Call, rule *compiledRoute, plan int) step {
	hash := call.hash
	if call.Kind == APIKey && hash == "" {
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
		keys:   []string{keyspace.Record(id), keyspace.State(id), copyKey(bucket)},
		args:   []string{hash, strconv.FormatInt(cost, 10), strconv.FormatInt(set.Version, 10), strconv.Itoa(plan)},
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

// parseOwn reads the reply about the caller itself. It is final when no limit can change it.
func (c *Checker) parseOwn(checked *Checked, reply []byte, set *compiledSet, own step, rule *compiledRoute) (final bool, err error) {
	if len(reply) == 0 {
		return true, ErrUnknownKey
	}
	kind, rest := reply[0], reply[1:]
	switch {
	case kind == 'S':
		return true, errStale
	case kind == 'B' && len(rest) >= 14:
		checked.BannedUntil, checked.Now, rest = timeAt(rest), timeAt(rest[7:]), rest[14:]
	case kind == 'O' && len(rest) >= 7:
		checked.Now, rest = timeAt(rest), rest[7:]
	}
	of, rest, err := c.parsePublic(checked, set, rest)
	if err != nil {
		return true, err
	}
	switch kind {
	case 'B':
		return true, nil
	case 'O':
		checked.Allowed, checked.Would = true, true
		return false, nil
	case 'D':
		return false, checked.add(ScopeKey, of.mode, of.limits, rest, own.keys[1:3], of.program)
	case 'W':
		return false, parseWide(checked, own, rule, of, rest)
	}
	return true, limiter.ErrReply
}

// public is what a reply says about the limits that hold for a caller.
type public struct {
	mode    Mode
	limits  []limiter.Limit
	program limiter.Program
}

// parsePublic reads what find.lua calls public, and returns what follows it.
func (c *Checker) parsePublic(checked *Checked, set *compiledSet, b []byte) (of public, rest []byte, err error) {
	if len(b) < 4+timesLen+publicLen {
		return public{}, nil, limiter.ErrReply
	}
	about := b[4+timesLen:]
	name := int(binary.BigEndian.Uint16(about[13:]))
	if len(about) < publicLen+name+4 {
		return public{}, nil, limiter.ErrReply
	}
	checked.changes = []time.Time{timeAt(b[4:]), timeAt(b[4+7:])}
	checked.KeyVersion, checked.Name = int64(binary.BigEndian.Uint32(about)), string(about[publicLen:publicLen+name])
	number := int(binary.BigEndian.Uint16(about[4:]))
	if number == 0 { // it came with the call
		number = checked.plan
	}
	if p, ok := set.Numbered(number); ok {
		checked.Plan = p.Name
	}
	source := about[publicLen+name]
	checked.Source = [...]string{"plan", "override"}[source&1]
	if source&1 == 1 {
		checked.changes = append(checked.changes, timeAt(about[6:]))
	}
	entry := about[publicLen+name+1:]
	of.mode, of.limits, rest, err = c.parseEntry(entry)
	if err != nil {
		return public{}, nil, err
	}
	of.program = limiter.Program(entry[3 : len(entry)-len(rest)])
	return of, rest, nil
}

const maxPrograms = 4096

// parseEntry is decodeEntry with a memory.
func (c *Checker) parseEntry(b []byte) (Mode, []limiter.Limit, []byte, error) {
	if len(b) < 3 || b[0] < 1 || int(b[0]) > len(modes) {
		return "", nil, nil, limiter.ErrReply
	}
	end := 3 + int(binary.BigEndian.Uint16(b[1:]))
	if len(b) < end {
		return "", nil, nil, limiter.ErrReply
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if limits, known := c.programs[string(b[:end])]; known {
		return modes[b[0]-1], limits, b[end:], nil
	}
	mode, limits, rest, err := decodeEntry(b)
	if err != nil {
		return "", nil, nil, fmt.Errorf("%w: %w", limiter.ErrReply, err)
	}
	if len(c.programs) >= maxPrograms {
		clear(c.programs)
	}
	c.programs[string(b[:end])] = limits
	return mode, limits, rest, nil
}

func parseWide(checked *Checked, own step, rule *compiledRoute, of public, b []byte) error {
	plan, b, ok := cut(b)
	if !ok {
		return limiter.ErrReply
	}
	routed, trial, ok := cut(b)
	if !ok {
		return limiter.ErrReply
	}
	if len(plan) > 0 {
		if err := checked.add(ScopeKey, of.mode, of.limits, plan, own.keys[1:3], of.program); err != nil {
			return err
		}
	}
	if len(routed) > 0 {
		keys := []string{own.keys[5], own.keys[2]}
		if err := checked.add(ScopeRoute, orEnforce(rule.Mode), rule.PerKey, routed, keys, rule.perKeyProgram()); err != nil {
			return err
		}
	}
	if !checked.Allowed { // the script took from both or from none
		checked.restore()
	}
	if checked.onTrial = len(trial) > 0; len(trial) >= 8 && checked.Now.IsZero() { // no other limit is the caller's
		checked.Now = timeAt(trial[1:])
	}
	checked.Trial = !checked.onTrial || trial[0]&1 == 1 // a cost above the candidate is as denied as any other
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

// The scopes of limits: what they are on.
const (
	ScopeKey      = "key"
	ScopeRoute    = "route"
	ScopeIP       = "ip"
	ScopeRouteIP  = "route-ip"
	ScopeGlobal   = "global"
	ScopeRouteAll = "route-all"
)

// add counts a decision in. Its limits are of one scope and mode; keys and program are what a give-back needs.
func (c *Checked) add(scope string, mode Mode, limits []limiter.Limit, reply []byte, keys []string, program limiter.Program) error {
	d, err := limiter.ParseReply(reply, limits)
	return c.count(scope, mode, d, err, taken{keys: keys, program: program, at: d.Now})
}

// addSide counts in what limits on another subject say; claim is nil when they are not leased.
func (c *Checked) addSide(s step, reply []byte, claim *claim) error {
	switch {
	case string(reply) == "S":
		return errStale
	case claim == nil:
		return c.add(s.side.scope, s.side.mode, s.side.limits, reply, s.keys, s.side.program)
	case claim.drawn:
		claim.draw(c.Now)
	}
	t := taken{keys: s.keys, program: s.side.longest().program, at: claim.decision.Now, lot: claim.lot}
	if t.lot != nil {
		t.at = t.lot.at
	}
	return c.count(s.side.scope, s.side.mode, claim.decision, claim.err, t)
}

// count counts a decision in, or why there is none.
func (c *Checked) count(scope string, mode Mode, d limiter.Decision, err error, t taken) error {
	switch {
	case errors.Is(err, limiter.ErrCost) && mode != Enforce: // denies nobody
		c.Would = false
		return nil
	case err != nil:
		return fmt.Errorf("policy: check: %w", err)
	}
	if d.Allowed && !c.free {
		t.first, t.count = int32(len(c.Limits)), int32(len(d.Limits))
		c.taken = append(c.taken, t)
	}
	c.Now = d.Now
	c.Would = c.Would && d.Allowed
	c.Allowed = c.Allowed && (d.Allowed || mode != Enforce)
	for _, u := range d.Limits {
		c.Limits = append(c.Limits, Applied{u, scope, mode})
	}
	return nil
}

// inert tells whether a denial that bans nobody leaves no trace, and came from the caller's own limits.
func (c *Checked) inert() bool {
	for _, l := range c.Limits {
		own := l.Scope == ScopeKey || l.Scope == ScopeRoute
		if l.Limit.CountDenied || !own && l.RetryAfter > 0 && l.Mode == Enforce {
			return false
		}
	}
	return !c.onTrial
}
