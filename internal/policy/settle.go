package policy

import (
	"context"
	_ "embed" // the scripts
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/keyspace"
	"tidegate/internal/limiter"
)

var (
	//go:embed charge.lua
	chargeLua string
	//go:embed settle.lua
	settleLua string

	settleScript = newScript(func() string { return limiter.StepFunction() + chargeLua + settleLua })
	// chargeScript settles one state: KEYS[1]; ARGV[1] its program, ARGV[2] the difference, ARGV[3] when the cost was taken.
	chargeScript = newScript(func() string {
		return limiter.StepFunction() + chargeLua + "return pack('>I4', settle(KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])))"
	})
)

// Settlement is what became of a reservation.
type Settlement struct {
	Reserved int64 // what was taken at first
	Actual   int64 // what was used
	// Short is how much more was used than could be charged: the most over all limits. It is 0 when Actual is not above Reserved.
	Short int64
	// Partial means that limits on others than the caller (its address, everybody) could not be reached. They keep what was taken at first.
	Partial bool
	Now     time.Time // the server's
}

// Settle makes the cost of a reservation what was really used, once: on every limit that took the difference is given back, or taken as far as it
// fits. An actual cost of 0 gives all of it back. It fails with ErrReservation, ErrExpired or ErrSettled, and with limiter.ErrCost for an actual cost
// that no call can have. After any other error the reservation may be settled or not; to try again is safe.
func (c *Checker) Settle(ctx context.Context, text string, actual int64) (Settlement, error) {
	r, err := c.seal.read(text)
	if err != nil {
		return Settlement{}, err
	}
	if actual < 0 || actual > limiter.MaxRequests {
		return Settlement{}, fmt.Errorf("%w: %d is not 0 to %d", limiter.ErrCost, actual, int64(limiter.MaxRequests))
	}
	set, err := c.current(ctx, r.subject)
	if err != nil {
		return Settlement{}, err
	}
	own, err := c.ownStates(ctx, set, r)
	if err != nil {
		return Settlement{}, err
	}
	s := Settlement{Reserved: r.cost, Actual: actual}
	if err := c.settleOwn(ctx, r, own, &s); err != nil {
		return Settlement{}, err
	}
	c.settleSides(ctx, set, r, &s)
	return s, nil
}

// current returns the newest Set.
func (c *Checker) current(ctx context.Context, id string) (*compiledSet, error) {
	set := c.set.Load()
	if set != nil {
		err := c.newest(ctx, set, id)
		if !errors.Is(err, errStale) {
			return set, err
		}
	}
	if err := c.Load(ctx); err != nil {
		return nil, err
	}
	return c.set.Load(), nil
}

// counted is a state, and the limits that it counts for.
type counted struct {
	key     string
	program limiter.Program
	at      time.Time
	trial   bool // the candidate's: it is in nobody's way
}

// ownStates are the states of the caller that took, with the limits that they count for now.
func (c *Checker) ownStates(ctx context.Context, set *compiledSet, r *reservation) ([]counted, error) {
	var states []counted
	add := func(what string, limits []limiter.Limit) error {
		if len(limits) == 0 {
			return nil
		}
		program, err := limiter.Compile(limits, time.Now())
		states = append(states, counted{keyspace.Of(r.subject, what), program, r.own, what == "sk"})
		return err
	}
	limits, candidate, err := c.ownLimits(ctx, set, r)
	if err != nil {
		return nil, err
	}
	if r.has(tookKey) {
		err = add("s", limits)
	}
	if rule := set.tagged(r.rule); rule != nil && r.has(tookRoute) {
		err = errors.Join(err, add("s"+rule.tag, rule.PerKey))
	}
	if r.has(tookCandidate) {
		err = errors.Join(err, add("sk", candidate))
	}
	return states, err
}

// ownLimits are the limits of the caller's override or plan, and the plan's candidate.
func (c *Checker) ownLimits(ctx context.Context, set *compiledSet, r *reservation) (limits, candidate []limiter.Limit, err error) {
	number := r.plan
	record, err := c.client.Do(ctx, c.client.B().Get().Key(keyspace.Record(r.subject)).Build()).AsBytes()
	switch {
	case valkey.IsValkeyNil(err):
	case err != nil:
		return nil, nil, fmt.Errorf("policy: settle: %w", err)
	default:
		k, _, err := decodeRecord(r.subject, record)
		if err != nil {
			return nil, nil, fmt.Errorf("policy: settle: %w", err)
		}
		if k.planNumber > 0 {
			number = k.planNumber
		}
		if k.Override.ActiveAt(time.Now()) {
			limits = k.Override.Limits
		}
	}
	p, _ := set.Numbered(number)
	if limits == nil {
		limits = p.Limits
	}
	return limits, p.Candidate, nil
}

// tagged returns the route with this tag; nil when it is gone.
func (c *compiledSet) tagged(tag string) *compiledRoute {
	for _, r := range c.routes {
		if r.tag == tag {
			return r
		}
	}
	return nil
}

func (c *Checker) settleOwn(ctx context.Context, r *reservation, states []counted, s *Settlement) error {
	keys := []string{keyspace.Of(r.subject, r.mark())}
	args := []string{strconv.FormatInt(r.expires.UnixMicro(), 10), strconv.FormatInt(s.Actual-r.cost, 10), strconv.FormatInt(r.own.UnixMicro(), 10)}
	for _, state := range states {
		keys, args = append(keys, state.key), append(args, valkey.BinaryString(state.program))
	}
	reply, err := c.run(ctx, settleScript, keys, args)
	switch {
	case err != nil:
		return fmt.Errorf("policy: settle: %w", err)
	case string(reply) == "X":
		return ErrExpired
	case string(reply) == "A":
		return ErrSettled
	case len(reply) != 8+4*len(states) || reply[0] != 'D':
		return limiter.ErrReply
	}
	s.Now = timeAt(reply[1:])
	for i, state := range states {
		if !state.trial {
			s.charged(reply[8+4*i:])
		}
	}
	return nil
}

// charged heeds how much more a state took.
func (s *Settlement) charged(b []byte) {
	s.Short = max(s.Short, s.Actual-s.Reserved-int64(binary.BigEndian.Uint32(b)))
}

// run runs a script, whether the server has it or not.
func (c *Checker) run(ctx context.Context, s *script, keys, args []string) ([]byte, error) {
	reply, err := c.client.Do(ctx, s.command(c.client, keys, args)).AsBytes()
	if missing(err) {
		return c.client.Do(ctx, s.whole(c.client, keys, args)).AsBytes()
	}
	return reply, err
}

// settleSides settles what limits on others than the caller took. Since the reservation counts as settled by now, what cannot be reached keeps it.
func (c *Checker) settleSides(ctx context.Context, set *compiledSet, r *reservation, s *Settlement) {
	if s.Actual == r.cost {
		return
	}
	for _, state := range set.sideStates(r) {
		args := []string{
			valkey.BinaryString(state.program), strconv.FormatInt(s.Actual-r.cost, 10), strconv.FormatInt(state.at.UnixMicro(), 10),
		}
		if reply, err := c.run(ctx, chargeScript, []string{state.key}, args); err != nil || len(reply) != 4 {
			s.Partial = true
		} else {
			s.charged(reply)
		}
	}
}

func (c *compiledSet) sideStates(r *reservation) []counted {
	var states []counted
	add := func(state int, s *side, id, what string) {
		if s != nil && r.has(state) {
			states = append(states, counted{key: keyspace.Of(id, what), program: s.program, at: r.at[state-firstSide]})
		}
	}
	add(tookIP, c.perIP, r.network, "sp")
	add(tookGlobal, c.global, "global", "s")
	if rule := c.tagged(r.rule); rule != nil {
		add(tookRouteIP, rule.perIP, r.network, "s"+rule.tag)
		add(tookRouteAll, rule.shared, RouteID(rule.Name), "s")
	}
	return states
}

// Reserve takes a cost from the limits of a key by its id, for a backend that calls by itself, and returns what a Check of that cost would with a
// reservation to settle. route is the name of a rule whose limits on each key and on all keys apply too; empty for none. It fails as Check does, with
// ErrNotFound for an unknown id or route, and with limiter.ErrCost for a cost below 1 or above a limit.
func (c *Checker) Reserve(ctx context.Context, id, route string, cost int64) (Checked, error) {
	if cost < 1 || cost > limiter.MaxRequests {
		return Checked{}, fmt.Errorf("%w: %d is not 1 to %d", limiter.ErrCost, cost, int64(limiter.MaxRequests))
	}
	call, err := c.byID(ctx, id)
	if err != nil {
		return Checked{}, err
	}
	if c.set.Load() == nil {
		if err := c.Load(ctx); err != nil {
			return Checked{}, err
		}
	}
	return c.renewing(ctx, func(set *compiledSet) (Checked, error) {
		rule := set.fallback
		if route != "" {
			if rule = set.named(route); rule == nil {
				return Checked{}, errors.Join(ErrNotFound, c.newest(ctx, set, id))
			}
		}
		plan, err := set.planFor(call.Kind, "")
		if err != nil {
			return Checked{}, errors.Join(err, c.newest(ctx, set, id))
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
		return Call{}, ErrNotFound
	case err != nil:
		return Call{}, fmt.Errorf("policy: reserve: %w", err)
	}
	k, secrets, err := decodeRecord(id, record)
	if err != nil {
		return Call{}, err
	}
	call := Call{Kind: k.Kind, Subject: id}
	if k.Kind == APIKey {
		call.hash = string(secrets.current[:])
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
