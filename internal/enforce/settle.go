package enforce

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/limits"
	"tidegate/internal/lua"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// giveHead is the head of the script that settles a step. ARGV[1] are the changes, ARGV[2]
// the instant of the call, ARGV[3] is 1 if KEYS[1] is the mark of the call. ARGV[4] is when
// the subject was reset; if it is the id of a group, the next key are the records of its
// bucket. What is charged counts although the subject was reset in the same microsecond.
const giveHead = "local list, at, reset = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])\n" +
	"local first, record = 1, false\n" +
	"if ARGV[3] == '1' then first, record = 2, KEYS[1] end\n" +
	"if not reset then reset = groupReset(KEYS[first], ARGV[4]) first = first + 1 end\n"

var giveScript = lua.New(func() string { return limiter.GiveScript(groupResetLua+giveHead, "return reply") })

// giveRun returns the run that settles a step of a subject. mark is the key of the call's
// mark; empty for none.
func giveRun(subject string, s limiter.Settlement, mark string) run {
	r := run{script: giveScript, keys: s.Keys(),
		args: []string{s.List(), strconv.FormatInt(s.At, 10), "0", strconv.FormatInt(s.Reset, 10)}}
	if isGroup(subject) {
		r.keys, r.args[3] = append([]string{keyspace.BucketOf(subject).Records()}, r.keys...), subject
	}
	if mark != "" {
		r.keys, r.args[2] = append([]string{mark}, r.keys...), "1"
	}
	return r
}

// markPrefix begins the last part of the key that marks a call as not settled yet.
const markPrefix = "s!"

func newMark() string {
	var nonce [9]byte
	_, _ = rand.Read(nonce[:]) // never fails
	return markPrefix + base64.RawURLEncoding.EncodeToString(nonce[:])
}

// MaxSettle is how many times the cost that a call took its settlement may charge to the
// limits of the caller's group.
const MaxSettle = 10

var (
	// ErrSettlement means that a text is not the settlement of a call.
	ErrSettlement = errors.New("not a settlement")
	// ErrExpired means that a call can no longer be settled. Its cost stays taken until the
	// windows pass.
	ErrExpired = errors.New("settlement has expired")
	// ErrSettled means that a call was settled before, or too long ago.
	ErrSettled = errors.New("call is settled already")
	// ErrCost means that an actual cost is below 0 or above limits.MaxRequests.
	ErrCost = errors.New("cost is out of range")
)

// Settlement is the result of settling a call.
type Settlement struct {
	Reserved map[string]int64 // costs that the call took, by unit
	Actual   map[string]int64 // costs that were really used
	// Owed is what the caller's own limits and those of its group count above their number:
	// the largest such part over all limits. They deny until it has drained.
	Owed int64
	// Partial means that a limit still counts some of what was to be given back, because the
	// count does not know the call any more, or that the group's limits could not be reached.
	Partial bool
	Now     time.Time // server time

	ID, Name, Group, Plan, Route string      // of the key, its group and plan, and the route
	KeyVersion                   int64       // 0 without a record
	Kind                         policy.Kind // empty without a record
	// Crossings are the thresholds of limits that the difference crossed.
	Crossings []Crossing
}

// settlement returns the text by which the call is settled; empty if nothing that can be
// settled was taken, or if the text is longer than MaxSettlement.
func (r *round) settlement() string {
	s := sealed{mark: r.mark, expires: r.Result.Now.Add(r.c.SettlementExpiry), subject: r.Result.ID,
		route: r.Result.Route, plan: r.Result.Plan}
	for _, t := range r.taken {
		if t.subject != r.Result.ID && !isGroup(t.subject) {
			continue // the estimate stays
		}
		part := sealedPart{subject: t.subject, at: t.decision.At.UnixMicro()}
		for _, state := range t.decision.Taken {
			if unit, ends, settles := r.unitOf(t, state); settles {
				part.states = append(part.states, sealedState{state, unit, ends})
			}
		}
		if len(part.states) > 0 {
			s.parts = append(s.parts, part)
		}
	}
	if len(s.parts) == 0 {
		return ""
	}
	if text := r.c.seal.write(&s); len(text) <= MaxSettlement {
		return text
	}
	return ""
}

// unitOf returns the unit of what a state counts, whether a settlement ends it, as calls at
// once, and whether a settlement moves it at all.
func (r *round) unitOf(t taken, state limiter.State) (unit string, ends, settles bool) {
	i := slices.IndexFunc(r.Steps, func(s Step) bool { return s.Subject == t.subject })
	for j, count := range r.Steps[i].Counts {
		if state.Of(count) {
			a := r.Steps[i].Limits[j]
			return a.Unit, a.AtOnce, a.Settle
		}
	}
	return "", false, false
}

// Settle moves what a call took to the costs that were really used, once. The limits of the
// caller are moved to them, those of its group by at most MaxSettle times what the call
// took; other limits keep what they took. What is above a limit is owed. A unit that actual
// does not name keeps what was taken. Settle returns ErrSettlement, ErrExpired, ErrSettled
// or ErrCost. After any other error the call may or may not be settled; a retry is safe.
func (c *Checker) Settle(ctx context.Context, text string, actual limits.Costs) (Settlement, error) {
	s, ok := c.seal.read(text)
	if !ok {
		return Settlement{}, ErrSettlement
	}
	for unit, cost := range actual.Units {
		if cost < 0 || cost > limits.MaxRequests {
			return Settlement{}, fmt.Errorf("%w: %d %s is not 0 to %d", ErrCost, cost, unit,
				int64(limits.MaxRequests))
		}
	}
	result := Settlement{Reserved: map[string]int64{}, Actual: actual.Units, ID: s.subject, Route: s.route}
	for _, p := range s.parts {
		for _, state := range p.states {
			if !state.ends {
				result.Reserved[state.unit] = state.Cost
			}
		}
	}
	if actual.Free {
		result.Actual = map[string]int64{limits.Cost: 0}
		for unit := range result.Reserved {
			result.Actual[unit] = 0
		}
	}
	set, k, err := c.read(ctx, Call{Subject: s.subject, Plan: s.plan})
	if err != nil {
		return Settlement{}, err
	}
	if !k.now.Before(s.expires) {
		return Settlement{}, ErrExpired
	}
	result.Now, result.Name, result.Group = k.now, k.key.Name, k.key.Group
	result.KeyVersion, result.Kind = k.key.Version, k.key.Kind
	if plan, refused := set.planOf(&k.key, s.plan); refused == nil {
		result.Plan = plan.Name
	}
	return result, c.settle(ctx, set, k, s, actual, &result)
}

// read reads a caller's record and the newest policy set.
func (c *Checker) read(ctx context.Context, call Call) (*compiled, *caller, error) {
	for range maxReloads {
		set, err := c.loaded(ctx)
		if err != nil {
			return nil, nil, err
		}
		asked := c.Now()
		t := &Terms{Refused: &policy.RefusedError{}, Result: Result{ID: call.Subject}}
		reply := c.flush(ctx, []run{t.ownRun("", 0)})[0]
		if reply.err != nil {
			return nil, nil, reply.err
		}
		if err := c.learn(ctx, set, call.Subject, reply.read, asked); err != nil {
			return nil, nil, err
		}
		if c.set.Load() == set {
			return set, c.callers.find(call.Subject), nil
		}
	}
	return nil, nil, ErrStale
}

// settle makes the changes: first the caller's, which take the mark away, then the group's.
func (c *Checker) settle(ctx context.Context, set *compiled, k *caller, s *sealed, actual limits.Costs,
	result *Settlement) error {
	mark := keyspace.Of(s.subject, s.mark)
	charged := map[string]int64{} // by key of the state
	for i, p := range s.parts {
		changes, key := p.changes(actual, p.subject != s.subject), ""
		if i == 0 && p.subject == s.subject && len(changes.Changes) > 0 {
			key = mark
		} else if i == 0 { // no state of the caller changes
			if err := c.unmark(ctx, mark); err != nil {
				return err
			}
		}
		if len(changes.Changes) == 0 {
			continue
		}
		if p.subject == s.subject {
			changes.Reset = resetOf(k.key)
		}
		reply := c.flush(ctx, []run{giveRun(p.subject, changes, key)})[0]
		switch {
		case reply.err != nil && key != "":
			return reply.err
		case reply.err != nil:
			result.Partial = true
		case len(reply.numbers) == 0:
			return ErrSettled
		}
		for j, given := range reply.numbers {
			by := changes.Changes[j].By
			// What a reset has forgotten is counted nowhere.
			counts := p.at > changes.Reset
			if result.Partial = result.Partial || by < 0 && given < -by && counts; by > 0 {
				charged[changes.Changes[j].Key] = given
			}
		}
	}
	if len(charged) > 0 {
		return c.lookSettled(ctx, set, k, s, charged, result)
	}
	return nil
}

// unmark takes the mark of a call away.
func (c *Checker) unmark(ctx context.Context, mark string) error {
	removed, err := c.client.Do(ctx, c.client.B().Del().Key(mark).Build()).AsInt64()
	switch {
	case err != nil:
		return fmt.Errorf("enforce: settle: %w", err)
	case removed == 0:
		return ErrSettled
	}
	return nil
}

// changes returns the settlement of the states of one subject.
func (p *sealedPart) changes(actual limits.Costs, bounded bool) limiter.Settlement {
	changes := limiter.Settlement{At: p.at}
	for _, state := range p.states {
		cost, given := actual.Of(state.unit)
		if state.ends {
			cost, given = 0, true
		}
		if !given {
			continue
		}
		if bounded {
			cost = min(cost, MaxSettle*state.Cost)
		}
		if cost != state.Cost {
			changes.Changes = append(changes.Changes, limiter.Change{State: state.State,
				By: cost - state.Cost})
		}
	}
	return changes
}

// lookSettled reads what limits count after a settlement charged some of their states. An
// error leaves out what is owed: the call is settled nevertheless.
func (c *Checker) lookSettled(ctx context.Context, set *compiled, k *caller, s *sealed,
	charged map[string]int64, result *Settlement) error {
	call := Call{Kind: k.key.Kind, Subject: s.subject, Plan: s.plan, trusted: true}
	steps, states, err := c.standingSteps(set, k, call)
	if err != nil {
		return nil //nolint:nilerr // as said above
	}
	if err := c.look(ctx, steps, states); err != nil {
		return nil //nolint:nilerr // as said above
	}
	at := 0
	for _, step := range steps {
		for i := range step.Limits {
			l := states[at]
			at++
			for key, cost := range charged {
				state := limiter.State{Key: key}
				if state.Of(step.Counts[i]) && !l.Unread && l.Enforced() {
					result.Owed = max(result.Owed, l.Owed)
					result.Crossings = append(result.Crossings,
						crossed(l, cost, step.Subject, result.Now)...)
				}
			}
		}
	}
	return nil
}
