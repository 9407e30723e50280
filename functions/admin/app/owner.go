package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidegate/functions/admin/auth/throttle"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// ownerDays is how many days of calls an owner sees, today included.
const ownerDays = 30

// Owners shows keys to the holders of their secrets. It is safe for concurrent use.
type Owners struct {
	Keys     *Registry
	Records  *records.Reader
	Throttle *throttle.Owners
}

// OwnKey is what the owner of a key sees of the key.
type OwnKey struct {
	policy.Key
	Set    *policy.Set          // in force
	Limits []enforce.LimitState // that are enforced, of the key and its group
	Days   []records.Point      // UTC days, the latest last
}

// ThrottledError refuses a request that exceeds the throttle of owners.
type ThrottledError struct{ RetryAfter time.Duration }

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("too many requests: retry after %s", e.RetryAfter)
}

// View returns the key of a secret in a request from the address remote. It takes nothing
// from the key's limits. It returns policy.ErrUnknownKey if the secret is not accepted,
// whatever the reason, and a *ThrottledError if the key views too often, or the address
// sends too many secrets that are not accepted.
func (o *Owners) View(ctx context.Context, remote, secret string) (OwnKey, error) {
	if secret == "" {
		return OwnKey{}, policy.ErrUnknownKey
	}
	set, err := o.Keys.Set(ctx)
	if err != nil {
		return OwnKey{}, err
	}
	k, err := o.Keys.Authenticate(ctx, set, secret)
	var wait time.Duration
	var throttleErr error
	switch {
	case errors.Is(err, policy.ErrUnknownKey):
		wait, throttleErr = o.Throttle.Refuse(ctx, remote)
	case err != nil:
		return OwnKey{}, err
	default:
		wait, throttleErr = o.Throttle.Admit(ctx, k.ID)
	}
	switch {
	case throttleErr != nil:
		return OwnKey{}, throttleErr
	case wait > 0:
		return OwnKey{}, &ThrottledError{wait}
	case err != nil:
		return OwnKey{}, err
	}
	return o.view(ctx, set, k)
}

func (o *Owners) view(ctx context.Context, set *policy.Set, k policy.Key) (OwnKey, error) {
	now := time.Now().UTC()
	own := OwnKey{Key: k, Set: set}
	states, err := o.Keys.Usage(ctx, set, []policy.Key{k})
	if err != nil {
		return OwnKey{}, err
	}
	own.Limits = slices.DeleteFunc(states[0], func(l enforce.LimitState) bool { return !l.Enforced() })
	const day = 24 * time.Hour
	first := now.Truncate(day).Add(-(ownerDays - 1) * day)
	series, err := o.Records.Caller(ctx, k.ID, records.Range{From: first, To: now, Step: day})
	own.Days = series.Points
	return own, err
}
