package enforce

import (
	"encoding/binary"
	"fmt"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

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
