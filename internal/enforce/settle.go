package enforce

import (
	"context"
	_ "embed" // the scripts
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/enforce/reservation"
	"tidegate/internal/limiter"
	"tidegate/internal/lua"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

var (
	//go:embed lua/charge.lua
	chargeLua string
	//go:embed lua/settle.lua
	settleLua string

	settleScript = lua.New(func() string {
		return limiter.StepFunction() + chargeLua + settleLua
	})
	// chargeScript settles one state. KEYS[1] is the state, KEYS[2] its bucket's copy of
	// the plans. ARGV[1] is the program of its limits, ARGV[2] the difference, ARGV[3]
	// when the cost was taken, and ARGV[4] the version of the policy set of the program.
	// It returns the result of the Lua function settle, or 'S' if a newer set is in force.
	chargeScript = lua.New(func() string {
		return limiter.StepFunction() + chargeLua +
			"if newer(KEYS[2], ARGV[4]) then return 'S' end\n" +
			"return settle(KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), '')"
	})
)

var (
	// ErrReservation means that a text is not a reservation.
	ErrReservation = errors.New("not a reservation")
	// ErrExpired means that a reservation has expired. Its cost stays taken until the
	// windows pass.
	ErrExpired = errors.New("reservation has expired")
	// ErrSettled means that a reservation was settled before.
	ErrSettled = errors.New("reservation is settled already")
)

// Settlement is the result of settling a reservation.
type Settlement struct {
	Reserved int64 // cost that was taken by the call
	Actual   int64 // cost that was really used
	// SettleMax is the most that shared limits are charged for the call.
	SettleMax int64
	// AboveMax is how much of Actual is above SettleMax; 0 if none is. Only the caller's
	// own limits are charged for it.
	AboveMax int64
	// Owed is what the caller's own limits and shared ones count above their number: the
	// largest such part over all limits. They deny until it has drained.
	Owed int64
	// Partial means that a limit still counts some of what was to be given back, or that
	// a shared limit could not be reached and still counts Reserved. What has left a
	// limit's window does not make a settlement partial.
	Partial bool
	Now     time.Time // server time

	ID, Name, Group, Plan, Rule string      // of the key, its group and plan, and the route rule
	KeyVersion                  int64       // 0 without a record
	Kind                        policy.Kind // empty without a record
	// Crossings are the thresholds of limits that the difference crossed.
	Crossings crossings
}

// Settle replaces the cost of a reservation by the cost that was really used, once. Every
// limit of cost that took the reserved cost gets the difference back, or is charged for
// it: what does not fit is owed. Shared limits are
// charged SettleMax at most. An actual cost of 0 gives back everything. Settle returns
// ErrReservation, ErrExpired or ErrSettled, and limiter.ErrCost for an actual cost that is
// out of range. After any other error the reservation may or may not be settled; a retry
// is safe.
func (c *Checker) Settle(ctx context.Context, text string, actual int64) (Settlement, error) {
	r, ok := c.seal.Read(text)
	if !ok {
		return Settlement{}, ErrReservation
	}
	if actual < 0 || actual > limiter.MaxRequests {
		return Settlement{}, fmt.Errorf("%w: %d is not 0 to %d", limiter.ErrCost, actual,
			int64(limiter.MaxRequests))
	}
	s := Settlement{Reserved: r.Cost, Actual: actual, SettleMax: r.SettleMax,
		AboveMax: max(0, actual-r.SettleMax), ID: r.Subject}
	set, err := c.settleOwn(ctx, r, &s)
	if err != nil {
		return Settlement{}, err
	}
	c.settleShared(ctx, set, r, &s)
	return s, nil
}

// settleOwn settles the caller's own limits, as they are when the script runs. It returns
// the policy set that it used.
func (c *Checker) settleOwn(ctx context.Context, r *reservation.Reservation,
	s *Settlement) (*compiled.Set, error) {
	at := time.Now() // replaced by the server's time once that is known
	for range maxReloads {
		set, err := c.newestSet(ctx, r.Subject)
		if err != nil {
			return nil, err
		}
		own, err := c.readOwnStates(ctx, set, r, at)
		if err != nil {
			return nil, err
		}
		at, err = c.trySettle(ctx, set, own, r, s)
		if !errors.Is(err, ErrStale) {
			return set, err
		}
	}
	return nil, ErrStale
}

// settledState is a state that took the reserved cost.
type settledState struct {
	keys    []string // key of the state; of a shared limit also that of the bucket's copy of the plans
	program limiter.Program
	limits  []limiter.Limit // limits of program
	scope   string
	subject string    // id of what the limits are on
	at      time.Time // when the state took the cost
}

// ownStates are the states of the caller that a settlement changes, and what it read of
// the caller's record.
type ownStates struct {
	states         []settledState
	kind           policy.Kind // of the caller; empty without a record
	name           string      // name of the caller
	group          string
	plan           string
	rule           string
	version        int64  // of the record; 0 without one
	recordVersion  string // version of the record in 4 bytes; empty without a record
	overrideEnds   string // microseconds since 1970; empty without an end or override
	overrideActive bool
	counted        limiter.Program // of the plan's limits, which an override replaces
}

// readOwnStates reads the limits that apply to the caller at an instant, and lists its
// states that took the reserved cost.
func (c *Checker) readOwnStates(ctx context.Context, set *compiled.Set, r *reservation.Reservation,
	at time.Time) (own ownStates, err error) {
	k, err := policyset.DecodeReply(r.Subject,
		c.client.Do(ctx, c.client.B().Get().Key(keyspace.Record(r.Subject)).Build()))
	if err != nil {
		return ownStates{}, fmt.Errorf("enforce: settle: %w", err)
	}
	if own.version = k.Version; k.Version > 0 {
		own.recordVersion = string(binary.BigEndian.AppendUint32(nil, uint32(k.Version)))
	}
	override, _ := set.OverrideOf(k, at)
	if own.overrideActive = override != nil; !own.overrideActive {
		override = k.Override // the server's clock may be before its end
		o, found := set.GroupOverrides[k.Group]
		if found && (override == nil || o.Until.After(override.Until)) {
			override = &o
		}
	}
	if override != nil && !override.Until.IsZero() {
		own.overrideEnds = strconv.FormatInt(override.Until.UnixMicro(), 10)
	}
	number := r.Plan
	if k.PlanNumber > 0 {
		number = k.PlanNumber
	}
	p, _ := set.PlanByNumber(number)
	own.kind, own.name, own.group, own.plan = k.Kind, k.Name, k.Group, p.Name
	limits := p.Limits
	if own.overrideActive && override.Limits != nil {
		limits = override.Limits
		if r.Has(reservation.Key) {
			if own.counted, err = countedProgram(p); err != nil {
				return ownStates{}, err
			}
		}
	}
	err = own.add(r, reservation.Key, "s", limits)
	if rule := set.Tagged(r.Rule); rule != nil {
		own.rule = rule.Name
		err = errors.Join(err, own.add(r, reservation.Route, "s"+rule.Tag, rule.PerKey))
	}
	return own, err
}

// add appends a state if it took the reserved cost and still has limits.
func (own *ownStates) add(r *reservation.Reservation, state reservation.State, what string,
	limits []limiter.Limit) error {
	if !r.Has(state) || len(limits) == 0 {
		return nil
	}
	program, err := limiter.Compile(limits, time.Now())
	s := settledState{keys: []string{keyspace.Of(r.Subject, what)}, limits: limits, subject: r.Subject,
		program: program.Sparing(r.Spared(state)), at: r.At(state), scope: state.Scope()}
	own.states = append(own.states, s)
	return err
}

// trySettle settles the caller's own states in one script. It returns the server's time,
// and ErrStale if the record, its override or the policy set has changed since own was
// read.
func (c *Checker) trySettle(ctx context.Context, set *compiled.Set, own ownStates, r *reservation.Reservation,
	s *Settlement) (time.Time, error) {
	keys := []string{keyspace.Of(r.Subject, r.Mark()), keyspace.Record(r.Subject),
		policyset.CopyKey(keyspace.BucketOf(r.Subject))}
	args := []string{
		strconv.FormatInt(r.Expires.UnixMicro(), 10), strconv.FormatInt(s.Actual-r.Cost, 10),
		strconv.FormatInt(r.At(reservation.Key).UnixMicro(), 10),
		own.recordVersion, strconv.FormatInt(set.Version, 10), own.overrideEnds,
		map[bool]string{true: "1"}[own.overrideActive], valkey.BinaryString(own.counted),
	}
	for _, state := range own.states {
		keys, args = append(keys, state.keys[0]), append(args, valkey.BinaryString(state.program))
	}
	reply, err := settleScript.Do(ctx, c.client, keys, args).AsBytes()
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("enforce: settle: %w", err)
	case string(reply) == "X":
		return time.Time{}, ErrExpired
	case string(reply) == "A":
		return time.Time{}, ErrSettled
	case len(reply) == 8 && reply[0] == 'R':
		return policyset.TimeAt(reply[1:]), ErrStale
	case len(reply) < 8 || reply[0] != 'D':
		return time.Time{}, limiter.ErrReply
	}
	s.Now = policyset.TimeAt(reply[1:])
	s.Name, s.Group, s.Plan, s.Rule = own.name, own.group, own.plan, own.rule
	s.KeyVersion, s.Kind = own.version, own.kind
	rest := reply[8:]
	for _, state := range own.states {
		if rest, err = s.addCharge(state, s.Actual-r.Cost, rest); err != nil {
			return time.Time{}, err
		}
	}
	return s.Now, nil
}

// addCharge adds what settling one state did. b begins with the result of the Lua
// function settle. For a positive difference that is how much the state took; for a
// negative one, how much of it the state still counts. addCharge returns the bytes that
// follow.
func (s *Settlement) addCharge(state settledState, difference int64, b []byte) (rest []byte, err error) {
	if len(b) < 4 {
		return nil, limiter.ErrReply
	}
	n := int64(binary.BigEndian.Uint32(b))
	step, rest, ok := cutPart(b[4:])
	if !ok {
		return nil, limiter.ErrReply
	}
	if difference < 0 {
		s.Partial = s.Partial || n > 0
	} else {
		s.recordOwed(state, step)
		s.recordCrossings(state, n, step)
	}
	return rest, nil
}

// recordOwed records what a state's enforced limits count above their number after they
// were charged.
func (s *Settlement) recordOwed(state settledState, reply []byte) {
	if d, err := limiter.ParseReply(reply, state.limits); err == nil {
		for _, u := range d.Limits {
			if !u.Limit.Shadow {
				s.Owed = max(s.Owed, u.Owed)
			}
		}
	}
}
