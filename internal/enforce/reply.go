package enforce

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/enforce/compiled"
	"tidegate/internal/enforce/lease"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// readOwn reads the reply to the caller's own step into the result.
func (a *attempt) readOwn(ctx context.Context, r stepReply) error {
	r = a.guarded(ctx, r)
	// The short script does not say which limit the cost exceeds. In shadow mode it
	// denies no call.
	if r.err == nil && limiter.ReplyCostTooHigh(r.bytes) {
		a.own = a.wideStep(a.set, a.call, a.rule, a.result.plan)
		r = a.flush(ctx, []step{a.own}, nil)[0]
	}
	if r.err != nil {
		return r.err
	}
	final, err := a.parseOwn(&a.result, r.bytes, a.set, a.own, a.rule)
	a.keepAccess()
	switch {
	case final || err != nil:
		a.result.Allowed, a.result.WouldAllow = false, false
	case a.result.free:
		a.result.Allowed, a.result.WouldAllow, a.result.CandidateAllows = true, true, true
	}
	return err
}

// readShared reads the replies of shared limits into a result.
func (a *attempt) readShared(result *Result, replies []stepReply) error {
	return a.countShared(result, a.leases.complete(replies))
}

func (a *attempt) countShared(result *Result, replies []stepReply) (failed error) {
	for i, r := range replies {
		err := r.err
		if err == nil {
			err = result.addShared(a.shared[i], r.bytes, a.leases.of(i))
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// addShared adds the decision of a shared limit. request is nil when it is not leased.
func (c *Result) addShared(s step, reply []byte, request *lease.Request) error {
	switch {
	case string(reply) == "S":
		return ErrStale
	case request == nil:
		return c.add(s.shared.Scope, s.shared.Mode, s.shared.Configured, reply, s.keys, s.shared.Program)
	}
	d, err := request.Decision(c.Now)
	t := taken{keys: s.keys, program: s.shared.Longest().Program, at: d.Now, lease: request.Lease()}
	if t.lease != nil {
		t.at = t.lease.At()
	}
	return c.count(s.shared.Scope, s.shared.Mode, d, err, t)
}

// add counts a decision in. Its limits are of one scope and mode; keys and program are
// what a give-back needs.
func (c *Result) add(scope string, mode policy.Mode, limits []limiter.Limit, reply []byte, keys []string,
	program limiter.Program) error {
	d, err := limiter.ParseReply(reply, limits)
	return c.count(scope, mode, d, err, taken{keys: keys, program: program, at: d.Now})
}

// count counts a decision in, or why there is none.
func (c *Result) count(scope string, mode policy.Mode, d limiter.Decision, err error, t taken) error {
	switch {
	case errors.Is(err, limiter.ErrCost) && mode != policy.Enforce: // denies no call
		c.WouldAllow = false
		return nil
	case err != nil:
		return fmt.Errorf("enforce: check: %w", err)
	}
	if d.Allowed && !c.free {
		t.first, t.count = int32(len(c.Limits)), int32(len(d.Limits))
		c.taken = append(c.taken, t)
	}
	c.Now = d.Now
	c.WouldAllow = c.WouldAllow && d.WouldAllow()
	c.Allowed = c.Allowed && (d.Allowed || mode != policy.Enforce)
	c.Limits = append(c.Limits, LimitStates(d.Limits, scope, mode)...)
	return nil
}

// parseOwn reads the reply about the caller itself. It is final when no limit can change
// it.
func (c *Checker) parseOwn(checked *Result, reply []byte, set *compiled.Set, own step,
	rule *compiled.Route) (final bool, err error) {
	if len(reply) == 0 {
		return true, limiter.ErrReply
	}
	kind, rest := reply[0], reply[1:]
	switch {
	case kind == 'N' && len(rest) == 1:
		return true, refusalOf(rest[0])
	case kind == 'S':
		return true, ErrStale
	case kind == 'B' && len(rest) >= 14:
		checked.BannedUntil, checked.Now, rest = policyset.TimeAt(rest), policyset.TimeAt(rest[7:]), rest[14:]
	case kind == 'O' && len(rest) >= 7:
		checked.Now, rest = policyset.TimeAt(rest), rest[7:]
	}
	public := rest
	if kind == 'K' && own.known != nil {
		public = own.known.public
	}
	of, after, err := c.parsePublic(checked, set, public)
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
		checked.Allowed, checked.WouldAllow = true, true
		return false, nil
	case 'D':
		c.known.learn(checked.ID, own.args[0], set.Version, public[:len(public)-len(rest)])
		return false, checked.add(policy.ScopeKey, of.mode, of.limits, rest, own.keys[1:3], of.program)
	case 'K':
		return false, checked.add(policy.ScopeKey, of.mode, of.limits, rest, own.keys[1:3], of.program)
	case 'W':
		return false, parseWide(checked, own, rule, of, rest)
	}
	return true, limiter.ErrReply
}

// refusalOf reads why find.lua refuses a caller.
func refusalOf(code byte) error {
	switch code {
	case 'R':
		return &policy.RefusedError{Cause: cause.Revoked, Verified: true}
	case 'X':
		return &policy.RefusedError{Cause: cause.Expired, Verified: true}
	case 'O':
		return &policy.RefusedError{Cause: cause.OldSecret, Verified: true}
	case 'A':
		return &policy.RefusedError{Cause: cause.Access, Verified: true}
	}
	return &policy.RefusedError{Cause: cause.Unknown}
}

// public is what a reply says about the limits that hold for a caller.
type public struct {
	mode    policy.Mode
	limits  []limiter.Limit
	program limiter.Program
}

// parsePublic reads what find.lua calls public, and returns what follows it.
func (c *Checker) parsePublic(checked *Result, set *compiled.Set, b []byte) (of public,
	rest []byte, err error) {
	if len(b) < 4+policyset.TimesLen+policyset.PublicLen {
		return public{}, nil, limiter.ErrReply
	}
	about := b[4+policyset.TimesLen:]
	name := int(binary.BigEndian.Uint16(about[13:]))
	if len(about) < policyset.PublicLen+name+4 {
		return public{}, nil, limiter.ErrReply
	}
	checked.changes = []time.Time{policyset.TimeAt(b[4:]), policyset.TimeAt(b[4+7:])}
	checked.KeyVersion, checked.Name = int64(binary.BigEndian.Uint32(about)),
		string(about[policyset.PublicLen:policyset.PublicLen+name])
	number := int(binary.BigEndian.Uint16(about[4:]))
	if number == 0 { // it came with the call
		number = checked.plan
	}
	if p, ok := set.Numbered(number); ok {
		checked.Plan = p.Name
	}
	source := about[policyset.PublicLen+name]
	entry := about[policyset.PublicLen+name+1:]
	if checked.Group, entry, err = groupIn(source, entry); err != nil {
		return public{}, nil, err
	}
	checked.group = groupOf(set, checked.Group, number)
	checked.Source = [...]string{"plan", "override"}[source&1]
	checked.OldSecret = source&formerSecret != 0
	if source&1 == 1 {
		checked.changes = append(checked.changes, policyset.TimeAt(about[6:]))
	}
	of.mode, of.limits, rest, err = c.parseEntry(entry)
	if err != nil {
		return public{}, nil, err
	}
	of.program = limiter.Program(entry[3 : len(entry)-len(rest)])
	return of, rest, nil
}

// The marks of public, in addition to the source of the limits.
const (
	formerSecret = 2
	inGroup      = 4
)

// groupIn reads the name of the key's group, and returns the entry that follows.
func groupIn(marks byte, b []byte) (name string, entry []byte, err error) {
	if marks&inGroup == 0 {
		return "", b, nil
	}
	if end := 1 + int(b[0]); len(b) > end {
		return string(b[1:end]), b[end:], nil
	}
	return "", nil, limiter.ErrReply
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

func parseWide(checked *Result, own step, rule *compiled.Route, of public, b []byte) error {
	plan, b, ok := cut(b)
	if !ok {
		return limiter.ErrReply
	}
	routed, candidate, ok := cut(b)
	if !ok {
		return limiter.ErrReply
	}
	if len(plan) > 0 {
		if err := checked.add(policy.ScopeKey, of.mode, of.limits, plan, own.keys[1:3],
			of.program); err != nil {
			return err
		}
	}
	if len(routed) > 0 {
		keys := []string{own.keys[5], own.keys[2]}
		if err := checked.add(policy.ScopeRoute, policy.OrEnforce(rule.Mode), rule.PerKey, routed, keys,
			rule.PerKeyProgram()); err != nil {
			return err
		}
	}
	if !checked.Allowed { // the script took from both or from none
		checked.restore()
	}
	// no other limit is the caller's
	if checked.candidateAsked = len(candidate) > 0; len(candidate) >= 8 && checked.Now.IsZero() {
		checked.Now = policyset.TimeAt(candidate[1:])
	}
	// a cost above the candidate is as denied as any other
	checked.CandidateAllows = !checked.candidateAsked || candidate[0]&1 == 1
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
