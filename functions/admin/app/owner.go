package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tidegate/functions/admin/auth/throttle"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
)

// ownerDays is how many days, today included, an owner sees.
const ownerDays = 30

// Owners shows a key to whoever holds its secret. It is safe for concurrent use.
type Owners struct {
	Keys     *Registry
	Usage    *usage.Reader
	Throttle *throttle.Owners
}

// OwnKey is what the owner of a key sees of it.
type OwnKey struct {
	policy.Key
	Now    time.Time       // instant of the limits
	Limits []limiter.Usage // the enforced ones; owners do not see the others
	Group  []limiter.Usage // likewise, of the key's group on its plan
	Days   []usage.Point   // days of UTC, the latest last
}

// ThrottledError refuses a request that comes too soon.
type ThrottledError struct{ RetryAfter time.Duration }

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("too many requests: retry after %s", e.RetryAfter)
}

// View returns the key whose secret a request from an address brings. It takes nothing
// from the key's limits. It fails with policy.ErrUnknownKey for a secret that opens
// nothing, whatever the reason, and with a *ThrottledError.
func (o *Owners) View(ctx context.Context, remote, secret string) (OwnKey, error) {
	if secret == "" {
		return OwnKey{}, policy.ErrUnknownKey
	}
	attempt, err := o.Throttle.Take(ctx, remote)
	if err != nil {
		return OwnKey{}, err
	}
	if !attempt.Allowed {
		return OwnKey{}, &ThrottledError{attempt.RetryAfter}
	}
	set, err := o.Keys.Set(ctx)
	if err != nil {
		return OwnKey{}, err
	}
	k, err := o.Keys.Authenticate(ctx, set, secret)
	if err != nil {
		return OwnKey{}, err
	}
	if attempt, err = o.Throttle.Admit(ctx, attempt, k.ID); err != nil {
		return OwnKey{}, err
	}
	if !attempt.Allowed {
		return OwnKey{}, &ThrottledError{attempt.RetryAfter}
	}
	return o.view(ctx, set, k)
}

func (o *Owners) view(ctx context.Context, set *policy.Set, k policy.Key) (OwnKey, error) {
	now := time.Now().UTC()
	own := OwnKey{Key: k, Now: now}
	if e, found := set.Effective(k, now); found && e.Mode == policy.Enforce {
		decisions, err := o.Keys.Usage(ctx, set, []policy.Key{k})
		if err != nil {
			return OwnKey{}, err
		}
		own.Now = decisions[0].Now
		own.Limits = enforced(decisions[0])
	}
	p, found := set.EffectivePlan(k)
	if found && k.Group != "" && policy.OrEnforce(p.Mode) == policy.Enforce {
		decisions, err := o.Keys.store.GroupUsage(ctx, k.Group, []policy.Plan{p})
		if err != nil {
			return OwnKey{}, err
		}
		own.Group = enforced(decisions[0])
	}
	const day = 24 * time.Hour
	first := now.Truncate(day).Add(-(ownerDays - 1) * day)
	var err error
	own.Days, err = o.Usage.Series(ctx, k.ID, first, now, day)
	return own, err
}

// enforced leaves out limits in shadow, as the answers do that the owner gets.
func enforced(d limiter.Decision) []limiter.Usage {
	return slices.DeleteFunc(d.Limits, func(u limiter.Usage) bool { return u.Limit.Shadow })
}
