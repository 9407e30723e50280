package enforce

import (
	"context"
	_ "embed" // the scripts
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
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

	settleScript = lua.New(func() string { return limiter.StepFunction() + chargeLua + settleLua })
	// chargeScript settles one state: KEYS[1], KEYS[2] its bucket's copy of the plans;
	// ARGV[1] its program, ARGV[2] the difference, ARGV[3] when the cost was taken,
	// ARGV[4] the version of the Set that the program goes by. It returns what the
	// function settle does, or 'S' when the Set is newer.
	chargeScript = lua.New(func() string {
		return limiter.StepFunction() + chargeLua + "if newer(KEYS[2], ARGV[4]) then return 'S' end\n" +
			"return settle(KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]))"
	})
)

var (
	// ErrReservation means that a text is not a reservation.
	ErrReservation = errors.New("not a reservation")
	// ErrExpired means that a reservation has expired: what it took stays taken until
	// its window passes.
	ErrExpired = errors.New("reservation has expired")
	// ErrSettled means that a reservation was settled before. It is settled once.
	ErrSettled = errors.New("reservation is settled already")
)

// Settlement is what became of a reservation.
type Settlement struct {
	Reserved int64 // what was taken at first
	Actual   int64 // what was used
	// SettleMax is the most that limits shared by several callers are charged for the
	// call.
	SettleMax int64
	// AboveMax is how much of Actual is above SettleMax. Only the caller's own limits are
	// charged for it. It is 0 when Actual is at most SettleMax.
	AboveMax int64
	// Short is how much more was used than could be charged: the most over all limits, on
	// those that callers share without AboveMax. It is 0 when Actual is not above
	// Reserved.
	Short int64
	// Partial means that a limit still counts some of what was to be given back, or that
	// limits on others than the caller (its address, everybody) could not be reached and
	// keep what was taken at first. What has left a limit's window by itself is not
	// partial.
	Partial bool
	Now     time.Time // the server's

	ID, Name, Group, Plan, Rule string // of the key, its group and plan, and the route rule
	// Crossings are the thresholds of limits that the difference crossed.
	Crossings crossings
}

// Settle makes the cost of a reservation what was really used, once: on every limit that
// took the difference is given back, or taken as far as it fits. Limits that callers
// share are charged SettleMax at most. An actual cost of 0 gives all of it back. It fails
// with ErrReservation, ErrExpired or ErrSettled, and with limiter.ErrCost for an actual
// cost that no call can have. After any other error the reservation may be settled or
// not; to try again is safe.
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

// settleOwn settles on the caller, by the limits that hold for it in that step. It
// returns the Set that they are of.
func (c *Checker) settleOwn(ctx context.Context, r *reservation.Reservation,
	s *Settlement) (*compiled.Set, error) {
	at := time.Now() // of the server as soon as that is known
	for range maxReloads {
		set, err := c.current(ctx, r.Subject)
		if err != nil {
			return nil, err
		}
		by, err := c.basis(ctx, set, r, at)
		if err != nil {
			return nil, err
		}
		at, err = c.trySettle(ctx, set, by, r, s)
		if !errors.Is(err, ErrStale) {
			return set, err
		}
	}
	return nil, ErrStale
}

// counted is a state, and the limits that it counts for.
type counted struct {
	keys      []string // the state's; on others than the caller, the bucket's copy of the plans too
	program   limiter.Program
	limits    []limiter.Limit // of program; nil when it is not that of limits
	scope     string
	subject   string // id of what the limits are on
	at        time.Time
	candidate bool // its limits deny no call
}

// basis is what a settlement on the caller goes by.
type basis struct {
	states []counted
	name   string // the caller's
	group  string
	plan   string
	rule   string
	record string // version of the caller's record, 4 bytes; empty without one
	till   string // when the override ends, microseconds; empty when there is none or it does not
	holds  bool   // the override does
}

// basis reads the limits that hold for the caller at an instant, and lists the states
// that took.
func (c *Checker) basis(ctx context.Context, set *compiled.Set, r *reservation.Reservation,
	at time.Time) (by basis, err error) {
	k, err := policyset.Recorded(r.Subject,
		c.client.Do(ctx, c.client.B().Get().Key(keyspace.Record(r.Subject)).Build()))
	if err != nil {
		return basis{}, fmt.Errorf("enforce: settle: %w", err)
	}
	if k.Version > 0 {
		by.record = string(binary.BigEndian.AppendUint32(nil, uint32(k.Version)))
	}
	by.holds = k.Override.ActiveAt(at)
	if k.Override != nil && !k.Override.Until.IsZero() {
		by.till = strconv.FormatInt(k.Override.Until.UnixMicro(), 10)
	}
	number := r.Plan
	if k.PlanNumber > 0 {
		number = k.PlanNumber
	}
	p, _ := set.Numbered(number)
	by.name, by.group, by.plan = k.Name, k.Group, p.Name
	limits := p.Limits
	if by.holds && k.Override.Limits != nil {
		limits = k.Override.Limits
	}
	if r.Has(reservation.Key) {
		err = by.add(r, reservation.Key, "s", limits)
	}
	rule := set.Tagged(r.Rule)
	if rule != nil {
		by.rule = rule.Name
	}
	if rule != nil && r.Has(reservation.Route) {
		err = errors.Join(err, by.add(r, reservation.Route, "s"+rule.Tag, rule.PerKey))
	}
	if r.Has(reservation.Candidate) {
		err = errors.Join(err, by.add(r, reservation.Candidate, "sk", p.Candidate))
	}
	return by, err
}

func (by *basis) add(r *reservation.Reservation, state reservation.State, what string,
	limits []limiter.Limit) error {
	if len(limits) == 0 {
		return nil
	}
	program, err := limiter.Compile(limits, time.Now())
	own := counted{keys: []string{keyspace.Of(r.Subject, what)}, limits: limits, subject: r.Subject,
		program: program.Sparing(r.Spared(state)), at: r.At(state), candidate: state == reservation.Candidate}
	if !own.candidate {
		own.scope = state.Scope()
	}
	by.states = append(by.states, own)
	return err
}

// trySettle fails with errStale, and returns the server's time, when the basis no longer
// holds.
func (c *Checker) trySettle(ctx context.Context, set *compiled.Set, by basis, r *reservation.Reservation,
	s *Settlement) (time.Time, error) {
	keys := []string{keyspace.Of(r.Subject, r.Mark()), keyspace.Record(r.Subject),
		policyset.CopyKey(keyspace.BucketOf(r.Subject))}
	args := []string{
		strconv.FormatInt(r.Expires.UnixMicro(), 10), strconv.FormatInt(s.Actual-r.Cost, 10),
		strconv.FormatInt(r.At(reservation.Key).UnixMicro(), 10),
		by.record, strconv.FormatInt(set.Version, 10), by.till, map[bool]string{true: "1"}[by.holds],
	}
	for _, state := range by.states {
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
	s.Name, s.Group, s.Plan, s.Rule = by.name, by.group, by.plan, by.rule
	rest := reply[8:]
	for _, state := range by.states {
		if rest, err = s.charged(state, s.Actual-r.Cost, rest); err != nil {
			return time.Time{}, err
		}
	}
	return s.Now, nil
}

// charged notes how much of a difference a state took and what that crossed, or, when it
// was to be given back, how much of it the state still counts. b begins with what the
// script's function settle returned for the state.
func (s *Settlement) charged(state counted, difference int64, b []byte) (rest []byte, err error) {
	if len(b) < 6 || len(b) < 6+int(binary.BigEndian.Uint16(b[4:])) {
		return nil, limiter.ErrReply
	}
	n, step := int64(binary.BigEndian.Uint32(b)), b[6:6+int(binary.BigEndian.Uint16(b[4:]))]
	rest = b[6+len(step):]
	switch {
	case state.candidate:
	case difference < 0:
		s.Partial = s.Partial || n > 0
	default:
		s.Short = max(s.Short, difference-n)
		s.cross(state, n, step)
	}
	return rest, nil
}

// settleShared settles what shared limits took. Since the reservation
// counts as settled by now, what cannot be reached keeps it.
func (c *Checker) settleShared(ctx context.Context, set *compiled.Set, r *reservation.Reservation,
	s *Settlement) {
	if s.sharedDifference() == 0 {
		return
	}
	left := sharedStates(set, r)
	for range maxReloads {
		if left = c.chargeAll(ctx, set, left, s); len(left) == 0 {
			return
		}
		if c.Load(ctx) != nil {
			break
		}
		set = c.set.Load()
		left = slices.DeleteFunc(sharedStates(set, r), func(now counted) bool {
			return !slices.ContainsFunc(left, func(before counted) bool {
				return before.keys[0] == now.keys[0]
			})
		})
	}
	s.Partial = s.Partial || len(left) > 0
}

// chargeAll settles states, and returns those that go by a newer Set.
func (c *Checker) chargeAll(ctx context.Context, set *compiled.Set, states []counted,
	s *Settlement) (stale []counted) {
	difference := s.sharedDifference()
	for _, state := range states {
		args := []string{
			valkey.BinaryString(state.program), strconv.FormatInt(difference, 10),
			strconv.FormatInt(state.at.UnixMicro(), 10),
			strconv.FormatInt(set.Version, 10),
		}
		switch reply, err := chargeScript.Do(ctx, c.client, state.keys, args).AsBytes(); {
		case err == nil && string(reply) == "S":
			stale = append(stale, state)
		case err != nil:
			s.Partial = true
		default:
			if _, err := s.charged(state, difference, reply); err != nil {
				s.Partial = true
			}
		}
	}
	return stale
}

func sharedStates(set *compiled.Set, r *reservation.Reservation) []counted {
	var states []counted
	add := func(state reservation.State, s *compiled.SharedLimit, id, what string) {
		if s != nil && r.Has(state) {
			keys := []string{keyspace.Of(id, what), policyset.CopyKey(keyspace.BucketOf(id))}
			c := counted{keys: keys, program: s.Longest().Program.Sparing(r.Spared(state)),
				scope: s.Scope, subject: id, at: r.At(state)}
			if !s.Leased() {
				c.limits = s.Configured
			}
			states = append(states, c)
		}
	}
	add(reservation.IP, set.SharedPerIP, r.Network, "sp")
	add(reservation.Group, set.GroupLimit(r.GroupPlan), r.Group, policy.GroupState(r.GroupPlan))
	add(reservation.Global, set.SharedGlobal, policy.GlobalID, "s")
	if rule := set.Tagged(r.Rule); rule != nil {
		add(reservation.RouteIP, rule.SharedPerIP, r.Network, "s"+rule.Tag)
		add(reservation.RouteAll, rule.SharedByAll, policy.RouteID(rule.Name), "s")
	}
	return states
}

// sharedDifference returns what a settlement gives back to, or takes from, limits that
// callers share. It is negative to give back, and at most what SettleMax leaves.
func (s *Settlement) sharedDifference() int64 {
	return min(s.Actual, s.SettleMax) - s.Reserved
}
