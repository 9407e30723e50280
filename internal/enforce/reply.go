package enforce

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// readOwn reads the reply to the caller's own step into the result.
func (a *round) readOwn(ctx context.Context, r stepReply) error {
	r = a.learnAccess(ctx, r)
	// checkScript does not say which limit the cost exceeds. wideScript does, and a limit
	// in shadow mode must not deny the call.
	if r.err == nil && limiter.ReplyCostTooHigh(r.bytes) {
		a.own = a.wideStep(a.set, a.call, a.rule, a.result.plan)
		r = a.flush(ctx, []step{a.own}, nil)[0]
	}
	if r.err != nil {
		return r.err
	}
	final, err := a.parseOwn(&a.result, r.bytes, a.set, a.own, a.rule)
	a.recordAccess()
	switch {
	case final || err != nil:
		a.result.Allowed, a.result.WouldAllow = false, false
	case a.result.free:
		a.result.Allowed, a.result.WouldAllow = true, true
	}
	return err
}

// add adds the decision in a reply. All its limits have one scope and mode. Giving the
// cost back needs keys and program.
func (c *Result) add(scope string, mode policy.Mode, limits []limiter.Limit, reply []byte, keys []string,
	program, counted limiter.Program) error {
	d, err := limiter.ParseReply(reply, limits)
	return c.addDecision(scope, mode, limits, d, err,
		taken{keys: keys, program: program, counted: counted, at: d.Now})
}

// addDecision adds a decision on limits, or handles the error err in its place.
func (c *Result) addDecision(scope string, mode policy.Mode, limits []limiter.Limit, d limiter.Decision,
	err error, t taken) error {
	switch {
	case errors.Is(err, limiter.ErrCost) && mode != policy.Enforce: // such a limit denies no call
		c.WouldAllow, c.tooCostly = false, tooSmall(limits, scope, c.Cost)
		if !d.Now.IsZero() {
			c.Now = d.Now
		}
		return nil
	case err != nil:
		return fmt.Errorf("enforce: check: %w", err)
	}
	if d.Allowed && !c.free {
		t.scope, t.first, t.count = scope, int32(len(c.Limits)), int32(len(d.Limits))
		c.taken = append(c.taken, t)
	}
	c.Now = d.Now
	c.WouldAllow = c.WouldAllow && d.WouldAllow()
	c.Allowed = c.Allowed && (d.Allowed || mode != policy.Enforce)
	c.Limits = append(c.Limits, LimitStates(d.Limits, scope, mode)...)
	return nil
}

// parseOwn parses the reply to the caller's own step. final means that the reply decides
// the call whatever the limits: the caller is refused or banned.
func (c *Checker) parseOwn(result *Result, reply []byte, set *compiled.Set, own step,
	rule *compiled.Route) (final bool, err error) {
	if len(reply) == 0 {
		return true, limiter.ErrReply
	}
	kind, rest := reply[0], reply[1:]
	switch {
	case kind == 'N' && len(rest) == 1:
		return true, refusalOf(rest[0])
	case kind == 'S' && string(rest) == "\x00\x00\x00\x00":
		return true, noCopyError{}
	case kind == 'S':
		return true, ErrStale
	case kind == 'B' && len(rest) >= 14:
		result.BannedUntil, result.Now, rest = policyset.TimeAt(rest), policyset.TimeAt(rest[7:]), rest[14:]
	case kind == 'O' && len(rest) >= 7:
		result.Now, rest = policyset.TimeAt(rest), rest[7:]
	}
	public := rest
	if kind == 'K' && own.known != nil {
		public = own.known.public
	}
	active, after, err := c.parsePublic(result, set, public)
	if err != nil {
		return true, err
	}
	if kind != 'K' {
		rest = after
	}
	switch kind {
	case 'B':
		return true, nil
	case 'O':
		result.Allowed, result.WouldAllow = true, true
		result.addCounted(active, own)
		return false, nil
	case 'D':
		c.known.learn(result.ID, own.args[0], set.Version, public[:len(public)-len(rest)])
		return false, result.addOwn(active, rest, own)
	case 'K':
		return false, result.addOwn(active, rest, own)
	case 'W':
		err := parseWide(result, own, rule, active, rest)
		result.addCounted(active, own)
		return false, err
	}
	return true, limiter.ErrReply
}

// addOwn adds the decision of the limits of the caller's plan or override.
func (c *Result) addOwn(active activeLimits, reply []byte, own step) error {
	return c.add(policy.ScopeKey, active.mode, active.limits, reply, own.keys[1:3], active.program,
		active.counted)
}

// addCounted adds what an override without limits lets the plan's limits count.
func (c *Result) addCounted(active activeLimits, own step) {
	if active.mode == policy.Off && len(active.counted) > 0 && c.Allowed && !c.free {
		c.taken = append(c.taken,
			taken{keys: own.keys[1:3], program: limiter.NoLimits, counted: active.counted, at: c.Now,
				scope: policy.ScopeKey})
	}
}

// refusalOf returns the error for a code with which find.lua refuses a caller.
func refusalOf(code byte) error {
	if c, found := refusals[code]; found {
		return &policy.RefusedError{Cause: c, Verified: true}
	}
	return &policy.RefusedError{Cause: cause.Unknown}
}

// refusals has the codes of find.lua for callers that it verified.
var refusals = map[byte]cause.Cause{
	'R': cause.Revoked, 'X': cause.Expired, 'O': cause.OldSecret, 'A': cause.Access,
}

// activeLimits are the limits of a caller's plan or override, as a reply states them.
type activeLimits struct {
	mode    policy.Mode
	limits  []limiter.Limit
	program limiter.Program
	counted limiter.Program // of the plan's limits, which an override replaces; empty without one
}

// parsePublic parses the part public of a reply of find.lua: the caller's record and its
// limits. It returns the bytes that follow.
func (c *Checker) parsePublic(result *Result, set *compiled.Set, b []byte) (active activeLimits,
	rest []byte, err error) {
	if len(b) < 4+policyset.TimesLen+policyset.PublicLen {
		return activeLimits{}, nil, limiter.ErrReply
	}
	about := b[4+policyset.TimesLen:]
	name := int(binary.BigEndian.Uint16(about[13:]))
	if len(about) < policyset.PublicLen+name+4 {
		return activeLimits{}, nil, limiter.ErrReply
	}
	result.changes = []time.Time{policyset.TimeAt(b[4:]), policyset.TimeAt(b[4+7:])}
	result.KeyVersion, result.Name = int64(binary.BigEndian.Uint32(about)),
		string(about[policyset.PublicLen:policyset.PublicLen+name])
	number := int(binary.BigEndian.Uint16(about[4:]))
	if number == 0 { // the record names no plan
		number = result.plan
	}
	plan, known := set.PlanByNumber(number)
	result.Plan = plan.Name
	source := about[policyset.PublicLen+name]
	entry := about[policyset.PublicLen+name+1:]
	if result.Group, entry, err = groupIn(source, entry); err != nil {
		return activeLimits{}, nil, err
	}
	result.group = groupOf(set, result.Group, number)
	if result.Source = [...]string{"plan", "override"}[source&1]; source&ofGroup != 0 {
		result.Source = "group"
	}
	result.OldSecret = source&previousSecret != 0
	if source&1 == 1 {
		result.changes = append(result.changes, policyset.TimeAt(about[6:]))
	}
	active.mode, active.limits, rest, err = c.parseEntry(entry)
	if err != nil {
		return activeLimits{}, nil, err
	}
	active.program = limiter.Program(entry[3 : len(entry)-len(rest)])
	if known && source&1 == 1 {
		active.counted, err = countedProgram(plan)
	}
	return active, rest, err
}

// countedProgram returns the program of a plan's limits, which go on counting under an
// override.
func countedProgram(p policy.Plan) (limiter.Program, error) {
	program, err := limiter.Compile(p.Limits, time.Now())
	if err != nil {
		return nil, fmt.Errorf("enforce: %w", err)
	}
	return program, nil
}

// Bits of the byte of public whose bit 0 is the source of the limits.
const (
	previousSecret = 2
	inGroup        = 4
	ofGroup        = 8
)

// groupIn returns the name of the key's group, and the entry that follows it in b.
func groupIn(marks byte, b []byte) (name string, entry []byte, err error) {
	if marks&inGroup == 0 {
		return "", b, nil
	}
	if end := 1 + int(b[0]); len(b) > end {
		return string(b[1:end]), b[end:], nil
	}
	return "", nil, limiter.ErrReply
}

const maxPrograms = 4096 // entries that a Checker remembers

// parseEntry decodes the entry that b begins with, and remembers it. It also returns the
// bytes that follow the entry.
func (c *Checker) parseEntry(b []byte) (mode policy.Mode, limits []limiter.Limit, rest []byte, err error) {
	entry, rest, err := policyset.CutEntry(b)
	if err != nil {
		return "", nil, nil, fmt.Errorf("%w: %w", limiter.ErrReply, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if limits, known := c.programs[string(entry)]; known {
		return policyset.Modes[entry[0]-1], limits, rest, nil
	}
	if mode, limits, err = policyset.DecodeEntry(entry); err != nil {
		return "", nil, nil, fmt.Errorf("%w: %w", limiter.ErrReply, err)
	}
	if len(c.programs) >= maxPrograms {
		clear(c.programs)
	}
	c.programs[string(entry)] = limits
	return mode, limits, rest, nil
}

// parseWide parses what wide.lua adds to public: the replies of the caller's own limits,
// and of the route's limits on it. Each may be empty.
func parseWide(result *Result, own step, rule *compiled.Route, active activeLimits, b []byte) error {
	plan, routed, ok := cutPart(b)
	if !ok {
		return limiter.ErrReply
	}
	if len(plan) > 0 {
		if err := result.addOwn(active, plan, own); err != nil {
			return err
		}
	}
	if len(routed) > 0 {
		keys := []string{own.keys[3], own.keys[2]}
		if err := result.add(policy.ScopeRoute, policy.OrEnforce(rule.Mode), rule.PerKey, routed, keys,
			rule.PerKeyProgram(), nil); err != nil {
			return err
		}
	}
	if !result.Allowed { // the script took from both lists or from none
		result.restore()
	}
	return nil
}

// cutPart splits off a part that begins with its length in 2 bytes.
func cutPart(b []byte) (part, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	end := 2 + int(binary.BigEndian.Uint16(b))
	if len(b) < end {
		return nil, nil, false
	}
	return b[2:end], b[end:], true
}
