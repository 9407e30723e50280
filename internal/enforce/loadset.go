package enforce

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// ErrStale means that the caller's Set is older than the one in force. Nothing was taken.
var ErrStale = errors.New("enforce: a newer set is in force")

const maxReloads = 20 // for one check; every one needs a save of its own meanwhile

// Load reads the Set, so that the first check need not.
func (c *Checker) Load(ctx context.Context) error {
	go checkScript.Prepare() // while the Set is on its way
	set, err := policyset.LoadSet(ctx, c.client)
	if err != nil {
		return c.keepLastGood(set, err)
	}
	return c.adopt(set)
}

// adopt makes a Set the one that checks go by, unless they go by a newer one.
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

// Set returns the Set that checks go by until they find a newer one; nil before Load.
func (c *Checker) Set() *policy.Set {
	if set := c.set.Load(); set != nil {
		return &set.Set
	}
	return nil
}

// renewing repeats what finds that its Set is stale.
func (c *Checker) renewing(ctx context.Context, try func(*compiled.Set) (Result, error)) (Result, error) {
	for range maxReloads {
		set := c.set.Load()
		checked, err := try(set)
		if !errors.Is(err, ErrStale) {
			return checked, err
		}
		if err := c.renew(ctx, set); err != nil {
			return Result{}, err
		}
	}
	return Result{}, ErrStale
}

// renew reads a newer Set than the stale one: where it is stored or, when a failover took
// back what was saved there last, in a mirror. Without either it fails with errStale:
// steps by the older Set would make states forget what those of the newer one count.
func (c *Checker) renew(ctx context.Context, stale *compiled.Set) error {
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
	return ErrStale
}

// newest fails with errStale when a newer Set than this one is in force, so that no
// caller is refused by an old one.
func (c *Checker) newest(ctx context.Context, set *compiled.Set, id string) error {
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

// current returns the newest Set.
func (c *Checker) current(ctx context.Context, id string) (*compiled.Set, error) {
	set := c.set.Load()
	if set == nil {
		err := c.Load(ctx)
		return c.set.Load(), err
	}
	err := c.newest(ctx, set, id)
	if !errors.Is(err, ErrStale) {
		return set, err
	}
	err = c.renew(ctx, set)
	return c.set.Load(), err
}

// ErrSet means that the Set in force cannot be used here: another version of Tidegate
// wrote it, or it was damaged.
var ErrSet = errors.New("enforce: the set in force cannot be used")

// keepLastGood lets checks keep the Set that they have when the one in force cannot be
// used. The kept Set takes the newer version, so that checks do not count it as stale.
// Plans are those of the newer Set, since checks read them in the store. It fails when
// there is no Set to keep, and with any error that is not one of a Set.
func (c *Checker) keepLastGood(unusable *policy.Set, cause error) error {
	if unusable == nil { // it was not read
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

// Problem says why checks go by an older Set than the one in force, an ErrSet; nil when
// they do not.
func (c *Checker) Problem() error {
	if set := c.set.Load(); set != nil {
		return set.Problem
	}
	return nil
}
