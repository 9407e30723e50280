package policyset

import (
	"context"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// BannedUntil returns, for each key in order, the end of its ban by hand or by the policy
// set's automatic bans. It is zero for a key without a ban, and may be in the past.
func BannedUntil(ctx context.Context, client valkey.Client, set *policy.Set,
	keys []policy.Key) ([]time.Time, error) {
	until := make([]time.Time, len(keys))
	commands := make(valkey.Commands, len(keys))
	for i, k := range keys {
		until[i] = k.Banned
		commands[i] = client.B().Get().Key(BanKey(k.ID)).Build()
	}
	if set.Bans == nil || len(keys) == 0 {
		return until, nil
	}
	for i, result := range client.DoMulti(ctx, commands...) {
		ban, err := result.AsBytes()
		if err != nil && !valkey.IsValkeyNil(err) {
			return nil, fmt.Errorf("policyset: read bans: %w", err)
		}
		if len(ban) == 8 && TimeAt(ban[1:]).After(until[i]) { // the first byte is the number of bans
			until[i] = TimeAt(ban[1:])
		}
	}
	return until, nil
}

// BanKey returns the name of a caller's automatic ban, which wide.lua writes.
func BanKey(id string) string { return keyspace.Of(id, "sb") }

// DenialsKey returns the name of the denials that count towards a caller's next automatic
// ban, which wide.lua writes.
func DenialsKey(id string) string { return keyspace.Of(id, "sd") }
