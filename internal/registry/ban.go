package registry

import (
	"context"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// BannedUntil returns, for each key in order, the end of its ban by hand or by the policy
// set, whichever is later. It is zero for a key that was never banned, and may have
// passed.
func (s *Store) BannedUntil(ctx context.Context, set *policy.Set, keys []policy.Key) ([]time.Time, error) {
	return policyset.BannedUntil(ctx, s.client, set, keys)
}

// Unban lifts a key's ban, whoever made it, and resets the number of its automatic bans.
// The audit entry contains the end that the ban had. Unban fails as Update does.
func (s *Store) Unban(ctx context.Context, id string, version int64, edit Edit) (policy.Key, error) {
	set, old, hashes, err := s.edited(ctx, id, version)
	if err != nil {
		return old, err
	}
	until, err := s.BannedUntil(ctx, set, []policy.Key{old})
	if err != nil {
		return policy.Key{}, err
	}
	k := old
	old.Banned, k.Banned = until[0], time.Time{}
	return s.replace(ctx, set, old, k, hashes, audit.KeyUnban, edit, policyset.BanKey(id),
		policyset.DenialsKey(id))
}
