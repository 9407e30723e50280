package enforce

import (
	"errors"
	"fmt"

	"tidegate/internal/policy"
)

// ErrSet means that the Set in force cannot be used here: another version of Tidegate
// wrote it, or it was damaged.
var ErrSet = errors.New("policy: the set in force cannot be used")

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
