package policy

import (
	"context"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/keyspace"
)

// BannedUntil answers, for each key in order, until when it is banned, by hand or by the Set's policy for those who hammer; zero when it never was.
// It may be past.
func (s *Store) BannedUntil(ctx context.Context, set *Set, keys []Key) ([]time.Time, error) {
	until := make([]time.Time, len(keys))
	commands := make(valkey.Commands, len(keys))
	for i, k := range keys {
		until[i] = k.Banned
		commands[i] = s.client.B().Get().Key(banKey(k.ID)).Build()
	}
	if set.Bans == nil || len(keys) == 0 {
		return until, nil
	}
	for i, result := range s.client.DoMulti(ctx, commands...) {
		ban, err := result.AsBytes()
		if err != nil && !valkey.IsValkeyNil(err) {
			return nil, fmt.Errorf("policy: read bans: %w", err)
		}
		if len(ban) == 8 && timeAt(ban[1:]).After(until[i]) { // its first byte is how often it was banned
			until[i] = timeAt(ban[1:])
		}
	}
	return until, nil
}

// banKey holds a ban by the policy, denialsKey the denials that count towards the next; wide.lua writes both.
func banKey(id string) string     { return keyspace.Of(id, "sb") }
func denialsKey(id string) string { return keyspace.Of(id, "sd") }

// Unban lifts a key's ban, whoever made it, and forgets how often the policy banned it. The audit tells until when the ban was to last. It works as
// Update does.
func (s *Store) Unban(ctx context.Context, id string, version int64, edit Edit) (Key, error) {
	set, old, hashes, err := s.edited(ctx, id, version)
	if err != nil {
		return old, err
	}
	until, err := s.BannedUntil(ctx, set, []Key{old})
	if err != nil {
		return Key{}, err
	}
	k := old
	old.Banned, k.Banned = until[0], time.Time{}
	return s.replace(ctx, set, old, k, hashes, "key.unban", edit, banKey(id), denialsKey(id))
}
