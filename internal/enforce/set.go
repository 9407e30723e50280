package enforce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
)

// ErrSet means that the policy set in force cannot be used here: another version of
// Tidegate wrote it, or it is damaged.
var ErrSet = errors.New("enforce: the set in force cannot be used")

// ErrStale means that a newer policy set than this one is in force and none can be read, or
// that a part of Valkey lost its records. Nothing was taken.
var ErrStale = errors.New("enforce: what is in force cannot be read")

// compiled is a policy set prepared for checks.
type compiled struct {
	policy.Set
	language *limits.Policy
	router   *limits.Router
	opens    map[int]*route.List // by the number of a plan that opens some routes only
	problem  error               // why this is an older set under the version in force; nil if it is not
}

func compile(s *policy.Set) (*compiled, error) {
	c := &compiled{Set: *s, language: s.Language(), opens: map[int]*route.List{}}
	if err := checkZones(c.lists()); err != nil {
		return nil, err
	}
	var err error
	if c.router, err = c.routerWith(nil); err != nil {
		return nil, err
	}
	for _, p := range s.Plans {
		if len(p.Opens) == 0 {
			continue
		}
		if c.opens[p.Number], err = route.NewList(p.Opens); err != nil {
			return nil, fmt.Errorf("routes of plan %q: %w", p.Name, err)
		}
	}
	return c, nil
}

// lists returns the lists of limits of the set.
func (c *compiled) lists() [][]limits.Limit {
	lists := [][]limits.Limit{c.Limits}
	for _, p := range c.Plans {
		lists = append(lists, p.Limits)
	}
	for _, o := range c.GroupOverrides {
		lists = append(lists, o.Limits)
	}
	return lists
}

// checkZones returns an error if this build does not know a time zone: its periods would be
// those of UTC.
func checkZones(lists [][]limits.Limit) error {
	known := map[string]bool{"": true}
	for _, list := range lists {
		for _, l := range list {
			if known[l.Zone] {
				continue
			}
			if _, err := time.LoadLocation(l.Zone); err != nil {
				return fmt.Errorf("limit %s: %w", l, err)
			}
			known[l.Zone] = true
		}
	}
	return nil
}

// routerWith returns a router that knows the patterns of the set's limits and of others.
func (c *compiled) routerWith(others []limits.Limit) (*limits.Router, error) {
	return limits.NewRouter(c.Routes, append(c.lists(), others)...)
}

// checkAddress refuses an address that the lists refuse. It also refuses a call without an
// address that can be read, if the lists, or an enforced limit of each address, decide by
// it: such a call passes no list and is counted nowhere.
func (c *compiled) checkAddress(a netip.Addr, candidates []limits.Applied,
	call *limits.Call) *policy.RefusedError {
	switch {
	case !a.IsValid() && c.decidesByAddress(candidates, call):
		return &policy.RefusedError{Cause: cause.Address,
			Reason: "the event has no address that can be read, and the policy decides by address"}
	case within(c.Deny, a) || len(c.Allow) > 0 && !within(c.Allow, a):
		return &policy.RefusedError{Cause: cause.Address}
	}
	return nil
}

func (c *compiled) decidesByAddress(candidates []limits.Applied, call *limits.Call) bool {
	return len(c.Deny)+len(c.Allow)+len(c.Exempt) > 0 ||
		slices.ContainsFunc(candidates, func(a limits.Applied) bool {
			if a.Who != limits.EachAddress || a.Shadow {
				return false
			}
			_, applies := a.To(call, true)
			return applies
		})
}

func within(list []netip.Prefix, a netip.Addr) bool {
	a = a.Unmap()
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// maxReloads bounds how often one check reads what changed meanwhile. Each time needs
// another edit during the check.
const maxReloads = 20

// Load reads the policy set, so that the first check need not.
func (c *Checker) Load(ctx context.Context) error {
	go stepScript.Prepare() // while the set is being read
	set, err := policyset.LoadSet(ctx, c.client)
	if errors.Is(err, policy.ErrMissing) {
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	if err != nil {
		return c.keepLastGood(set, err)
	}
	return c.adopt(set)
}

// adopt makes checks use a set, unless they use a newer one.
func (c *Checker) adopt(set *policy.Set) error {
	newer, err := compile(set)
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

// Routes returns the routes that a call falls under by the set of the last check, the most
// specific first.
func (c *Checker) Routes(call route.Call) []limits.Matched {
	set := c.set.Load()
	if set == nil {
		return nil
	}
	found, _ := set.router.Find(call) // a call that must be refused falls under none
	return found.Routes
}

// loaded returns the set that checks use, and reads it first if there is none.
func (c *Checker) loaded(ctx context.Context) (*compiled, error) {
	if c.set.Load() == nil {
		if err := c.Load(ctx); err != nil {
			return nil, err
		}
	}
	return c.set.Load(), nil
}

// renew replaces a set that is not the newest. If there is none to read, it returns
// ErrStale.
func (c *Checker) renew(ctx context.Context, stale *compiled) error {
	if err := c.Load(ctx); err != nil || c.set.Load() != stale {
		return err
	}
	return ErrStale
}

// keepLastGood lets checks keep the set they use if the one in force is unusable. The
// kept set takes the newer version, so that it does not count as stale. keepLastGood
// returns an error if there is no set to keep, and cause itself if no set was read.
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
		kept.Version, kept.problem = unusable.Version, cause
		if c.set.CompareAndSwap(old, &kept) {
			return nil
		}
	}
}

// Problem returns the ErrSet for which checks keep an older set than the one in force;
// nil if they use the newest.
func (c *Checker) Problem() error {
	if set := c.set.Load(); set != nil {
		return set.problem
	}
	return nil
}

// Reasons why a caller without a record has no plan.
const (
	NoSuchPlan = "the plan that the call names does not exist"
	NoPlan     = "the call names no plan, and the policy has no tokenPlan"
)

// planOf returns the plan of a caller: of its record, or else the one for callers without
// one. named is the plan that the call names.
func (c *compiled) planOf(k *policy.Key, named string) (policy.Plan, *policy.RefusedError) {
	if k.PlanNumber > 0 || k.Kind == policy.APIKey {
		if p, found := c.PlanByNumber(k.PlanNumber); found {
			return p, nil
		}
		return policy.Plan{}, &policy.RefusedError{Cause: cause.Access, Verified: true,
			Reason: "the plan " + strconv.Itoa(k.PlanNumber) + " of the key does not exist"}
	}
	name, reason := named, NoSuchPlan
	switch {
	case k.Kind == policy.Address:
		name, reason = c.AddressPlan, "the policy has no addressPlan"
	case named == "":
		name, reason = c.TokenPlan, NoPlan
	}
	if p, found := c.Plan(name); found {
		return p, nil
	}
	return policy.Plan{}, &policy.RefusedError{Cause: cause.Access, Reason: reason}
}
