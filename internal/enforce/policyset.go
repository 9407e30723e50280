package enforce

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// ErrStale means that the Checker's policy set is older than the one in force. Nothing
// was taken.
var ErrStale = errors.New("enforce: a newer set is in force")

// noCopyError is the ErrStale of a bucket that has no copy of the plans.
type noCopyError struct{}

func (noCopyError) Error() string { return "enforce: the bucket has no copy of the plans" }
func (noCopyError) Unwrap() error { return ErrStale }

// ErrSet means that the policy set in force cannot be used here: another version of
// Tidegate wrote it, or it is damaged.
var ErrSet = errors.New("enforce: the set in force cannot be used")

var errNoSet = errors.New("enforce: no set was read yet")

// maxReloads bounds how often one check reads the policy set. Each reload needs another
// save during the check.
const maxReloads = 20

// Load reads the policy set, so that the first check need not.
func (c *Checker) Load(ctx context.Context) error {
	go checkScript.Prepare() // while the set is being read
	set, err := policyset.LoadSet(ctx, c.client)
	if err != nil {
		return c.keepLastGood(set, err)
	}
	return c.adopt(set)
}

// adopt makes checks use a set, unless they use a newer one.
func (c *Checker) adopt(set *policy.Set) error {
	newer, err := compiled.New(set)
	if err != nil {
		return c.keepLastGood(set, err)
	}
	for {
		old := c.set.Load()
		if old != nil && old.Version >= newer.Version || c.set.CompareAndSwap(old, newer) {
			return nil
		}
	}
}

// Set returns the policy set that checks use; nil before Load.
func (c *Checker) Set() *policy.Set {
	if set := c.set.Load(); set != nil {
		return &set.Set
	}
	return nil
}

// withNewestSet calls try with the set that checks use. While try fails with ErrStale,
// withNewestSet reads a newer set and calls try again.
func (c *Checker) withNewestSet(ctx context.Context,
	try func(*compiled.Set) (Result, error)) (Result, error) {
	if c.set.Load() == nil {
		if err := c.Load(ctx); err != nil {
			return Result{}, err
		}
	}
	for range maxReloads {
		set := c.set.Load()
		result, err := try(set)
		if !errors.Is(err, ErrStale) {
			return result, err
		}
		if err := c.renew(ctx, set, errors.Is(err, noCopyError{})); err != nil {
			return Result{}, err
		}
	}
	return Result{}, ErrStale
}

// copyPause is how long after a renewal for a bucket without a copy no other such renewal
// reads the sets again. Their sizes would make every call of the bucket slow.
const copyPause = time.Second

// renew replaces a stale set. It reads the stored set or, if a failover lost the last
// save, a mirror. If neither is newer, it returns ErrStale: steps with the older set
// would make states forget what the newer one counts. noCopy says that the bucket may only
// lack its copy: then it reads at most once in copyPause.
func (c *Checker) renew(ctx context.Context, stale *compiled.Set, noCopy bool) error {
	if noCopy && c.Now().UnixNano() < c.copyDue.Load() {
		return ErrStale
	}
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
	if noCopy {
		c.copyDue.Store(c.Now().Add(copyPause).UnixNano())
	}
	return ErrStale
}

// checkNewest returns ErrStale if a newer set is in force, so that no old set refuses a
// caller. id is the caller's.
func (c *Checker) checkNewest(ctx context.Context, set *compiled.Set, id string) error {
	b := keyspace.BucketOf(id)
	head, err := c.client.Do(ctx, c.client.B().Getrange().Key(policyset.CopyKey(b)).Start(0).End(
		4).Build()).AsBytes()
	switch {
	case err != nil:
		return fmt.Errorf("enforce: check: %w", err)
	case len(head) == 5 && int64(binary.BigEndian.Uint32(head[1:])) > set.Version:
		return ErrStale
	}
	return nil
}

// newestSet returns the newest set by the bucket of id.
func (c *Checker) newestSet(ctx context.Context, id string) (*compiled.Set, error) {
	set := c.set.Load()
	if set == nil {
		err := c.Load(ctx)
		return c.set.Load(), err
	}
	err := c.checkNewest(ctx, set, id)
	if !errors.Is(err, ErrStale) {
		return set, err
	}
	err = c.renew(ctx, set, false)
	return c.set.Load(), err
}

// keepLastGood lets checks keep the set they use if the one in force is unusable. The
// kept set takes the newer version, so that it does not count as stale. The scripts still
// apply the newer plans, which they read in Valkey. keepLastGood returns an error if
// there is no set to keep, and cause itself if no set was read.
func (c *Checker) keepLastGood(unusable *policy.Set, cause error) error {
	if unusable == nil {
		return cause
	}
	cause = fmt.Errorf("%w: version %d: %w", ErrSet, unusable.Version, cause)
	for {
		old := c.set.Load()
		if old == nil || unusable.Version == 0 {
			return cause
		}
		if old.Version >= unusable.Version {
			return nil
		}
		kept := *old
		kept.Version, kept.Problem = unusable.Version, cause
		if c.set.CompareAndSwap(old, &kept) {
			return nil
		}
	}
}

// Problem returns the ErrSet for which checks keep an older set than the one in force;
// nil if they use the newest.
func (c *Checker) Problem() error {
	if set := c.set.Load(); set != nil {
		return set.Problem
	}
	return nil
}

// RouteMatch is what the policy set alone determines about a call.
type RouteMatch struct {
	SetVersion int64
	Rule       string // as in Result
	Settle     bool   // as in Result
	Cost       int64  // 0 if nothing limits the call
	// Shared means that callers of the set share limits.
	Shared bool
}

// RuleLimits is a list of limits that a route rule, or the settings for all calls, apply
// to a call. The limits of the caller's plan or override are not among them.
type RuleLimits struct {
	State  string // key of the state in Valkey; unique to the list
	Scope  string
	Mode   policy.Mode
	Limits []limiter.Limit
}

// RouteMatch matches a call with the set that checks use. It returns policy.ErrRefused as
// Check does, and an error if no set was read yet.
func (c *Checker) RouteMatch(call Call) (RouteMatch, error) {
	set := c.set.Load()
	if set == nil {
		return RouteMatch{}, errNoSet
	}
	_, rule, err := matchCall(set, call)
	if err != nil {
		return RouteMatch{}, err
	}
	m := RouteMatch{SetVersion: set.Version, Rule: rule.Name, Settle: rule.Settle, Cost: rule.Cost,
		Shared: set.Shares || set.Groups()}
	if set.Exempts(call.Address) {
		m.Cost = 0
	}
	return m, nil
}

// RuleLimits returns the lists of limits that the set applies to a call, those on the
// caller alone first; none if nothing limits the call.
func (c *Checker) RuleLimits(call Call) []RuleLimits {
	set := c.set.Load()
	if set == nil {
		return nil
	}
	_, rule, err := matchCall(set, call)
	if err != nil || rule.Cost == 0 || set.Exempts(call.Address) {
		return nil
	}
	var all []RuleLimits
	if len(rule.PerKeyEntry) > 0 {
		all = append(all, RuleLimits{rule.State(call.Subject), policy.ScopeRoute,
			policy.OrEnforce(rule.Mode), rule.PerKey})
	}
	for _, s := range c.sharedSteps(set, call, rule) {
		all = append(all, RuleLimits{s.keys[0], s.shared.Scope, s.shared.Mode, s.shared.Limits})
	}
	return all
}

// matchCall finds the route of a call, and the number of the plan for a caller whose
// record has none; 0 for an API key. It returns policy.ErrRefused for a caller that may
// not call, and for an ambiguous path. rule is then nil, unless only the plan is missing.
func matchCall(set *compiled.Set, call Call) (plan int, rule *compiled.Route, err error) {
	if rule, err = set.RouteFor(call.Route); err != nil {
		return 0, nil, err
	}
	if err := set.CheckAddress(rule, call.Address); err != nil {
		return 0, nil, err
	}
	plan, err = set.PlanFor(call.Kind, call.Plan)
	return plan, rule, err
}
