package policy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/keyspace"
	"tidegate/internal/limiter"
	"tidegate/internal/route"
)

// Explained is what a Check of a call would answer, and why.
type Explained struct {
	Matches   []route.Match // the routes that the call falls under; Index counts Set.Routes
	Refused   string        // why the caller may not call, whatever the limits; empty when it may
	Exempt    bool          // the address is not limited
	Effective Effective
	Checked   Checked // as Check would return it, but Remaining is as before the call
}

// tryScript makes a step and takes it back, in one. KEYS[1] the state; ARGV[1] the program, ARGV[2] the cost, 0 to 1e9. Returns what
// limiter.ParseReply reads.
var tryScript = sync.OnceValue(func() *valkey.Lua { return valkey.NewLuaScript(limiter.StepFunction() + tryLua) })

const tryLua = `
local before, ttl = call('GET', KEYS[1]), call('PTTL', KEYS[1])
local reply = step(KEYS[1], ARGV[1], tonumber(ARGV[2]), 0)
if before then
  call('SET', KEYS[1], before)
  if ttl >= 0 then -- 0 when less than a millisecond is left
    call('PEXPIRE', KEYS[1], math.max(ttl, 1))
  end
else
  call('DEL', KEYS[1])
end
return reply
`

// Explain tells what a Check of the key's call would answer now, in an environment that holds no share of leased limits. It takes nothing. Call's
// Kind, Subject and Secret do not matter.
func (s *Store) Explain(ctx context.Context, set *Set, k Key, call Call) (Explained, error) {
	compiled, err := compileSet(set)
	if err != nil {
		return Explained{}, fmt.Errorf("policy: explain: %w", err)
	}
	now := s.now()
	call.Kind, call.Subject = k.Kind, k.ID
	e := Explained{Matches: compiled.table.Explain(call.Route), Exempt: compiled.exempts(call.Address)}
	e.Effective, _ = set.Effective(k, now)
	_, rule, err := compiled.admit(call)
	if e.Refused = refusal(compiled, k, call, now, err); rule == nil {
		rule = compiled.fallback
	}
	e.Checked = Checked{
		Allowed: e.Refused == "", Would: e.Refused == "", Trial: true, Cost: rule.Cost, Now: now, ID: k.ID, Name: k.Name, Plan: k.Plan,
		Source: e.Effective.Source,
		Rule:   rule.Name, Settle: rule.Settle, SetVersion: set.Version, KeyVersion: k.Version,
	}
	if err := s.explainBan(ctx, &e.Checked, set, k); err != nil {
		return Explained{}, err
	}
	return e, s.explainLimits(ctx, &e, compiled, call, rule)
}

// refusal says why a caller may not call; empty if it may.
func refusal(set *compiledSet, k Key, call Call, now time.Time, err error) string {
	switch {
	case k.Status != Active:
		return "the key is " + string(k.Status)
	case !k.Expires.IsZero() && !k.Expires.After(now):
		return "the key expired"
	case within(set.Deny, call.Address):
		return "the address is in the list of those refused"
	case len(set.Allow) > 0 && !within(set.Allow, call.Address):
		return "the address is not in the list of those admitted"
	case errors.Is(err, ErrRefused) && k.Plan == "":
		return "no plan is meant for callers of this kind"
	case err != nil:
		return "the path can be read in two ways that different routes match"
	}
	return ""
}

// explainBan looks for a ban by hand, and for one by the policy for those who hammer.
func (s *Store) explainBan(ctx context.Context, c *Checked, set *Set, k Key) error {
	until, err := s.BannedUntil(ctx, set, []Key{k})
	if err != nil {
		return err
	}
	if until[0].After(c.Now) {
		c.BannedUntil, c.Allowed, c.Would = until[0], false, false
	}
	return nil
}

// explained is one step on one subject, not made.
type explained struct {
	scope string
	mode  Mode
	step  limiter.Exchange
	side  *side // nil for the caller's own
}

func (s *Store) explainLimits(ctx context.Context, e *Explained, set *compiledSet, call Call, rule *compiledRoute) error {
	steps, err := e.steps(set, call, rule, s.addresses)
	if err != nil || len(steps) == 0 {
		return err
	}
	execs := make([]valkey.LuaExec, len(steps))
	for i, x := range steps {
		execs[i] = valkey.LuaExec{Keys: []string{x.step.Key}, Args: []string{valkey.BinaryString(x.step.Program), strconv.FormatInt(e.Checked.Cost, 10)}}
	}
	for i, result := range tryScript().ExecMulti(ctx, s.client, execs...) {
		reply, err := result.AsBytes()
		if err != nil {
			return fmt.Errorf("policy: explain: %w", err)
		}
		if err := e.Checked.explain(steps[i], reply); err != nil {
			return err
		}
	}
	if e.Exempt || e.Checked.Cost == 0 {
		e.Checked.Allowed, e.Checked.Would = e.Refused == "" && e.Checked.BannedUntil.IsZero(), true
	}
	return nil
}

// steps lists what a check of the call would step on, the caller's own first.
func (e *Explained) steps(set *compiledSet, call Call, rule *compiledRoute, addresses addressKey) ([]explained, error) {
	var steps []explained
	if e.Effective.Mode != Off && len(e.Effective.Limits) > 0 {
		program, err := limiter.Compile(e.Effective.Limits, e.Checked.Now)
		if err != nil {
			return nil, fmt.Errorf("policy: explain: %w", err)
		}
		own := limiter.Exchange{Key: keyspace.State(call.Subject), Program: program, Limits: e.Effective.Limits}
		steps = append(steps, explained{ScopeKey, e.Effective.Mode, own, nil})
	}
	if len(rule.perKey) > 0 {
		routed := limiter.Exchange{Key: keyspace.Of(call.Subject, "s"+rule.tag), Program: rule.perKeyProgram(), Limits: rule.PerKey}
		steps = append(steps, explained{ScopeRoute, orEnforce(rule.Mode), routed, nil})
	}
	for _, side := range set.sideSteps(call, rule, addresses) {
		count := side.side.at(e.Checked.Now)
		exchange := limiter.Exchange{Key: side.keys[0], Program: count.program, Limits: count.counted}
		steps = append(steps, explained{side.side.scope, side.side.mode, exchange, side.side})
	}
	return steps, nil
}

// explain counts in what a step would answer.
func (c *Checked) explain(x explained, reply []byte) error {
	if limiter.ReplyCostTooHigh(reply) {
		c.Allowed, c.Would = c.Allowed && x.mode != Enforce, false
		return nil
	}
	d, err := limiter.ParseReply(reply, x.step.Limits)
	if err != nil {
		return fmt.Errorf("policy: explain: %w", err)
	}
	c.Now = d.Now
	c.Would = c.Would && d.Allowed
	c.Allowed = c.Allowed && (d.Allowed || x.mode != Enforce)
	if x.side != nil {
		x.side.tell(d.Limits, d.Now)
	}
	for _, u := range d.Limits {
		if d.Allowed && c.Cost > 0 {
			u.Remaining = min(u.Remaining+c.Cost, u.Limit.Requests) // as it is before the call
		}
		c.Limits = append(c.Limits, Applied{u, x.scope, x.mode})
	}
	return nil
}
