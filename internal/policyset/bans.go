package policyset

import (
	"context"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// BannedUntil answers, for each key in order, until when it is banned, by hand or by the
// Set's policy of automatic bans; zero when it never was. It may be past.
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
			return nil, fmt.Errorf("policy: read bans: %w", err)
		}
		if len(ban) == 8 && TimeAt(ban[1:]).After(until[i]) { // its first byte is how often it was banned
			until[i] = TimeAt(ban[1:])
		}
	}
	return until, nil
}

// BanKey names a caller's ban by the policy; wide.lua writes it.
func BanKey(id string) string { return keyspace.Of(id, "sb") }

// DenialsKey names the denials that count towards a caller's next ban; wide.lua writes
// them.
func DenialsKey(id string) string { return keyspace.Of(id, "sd") }
