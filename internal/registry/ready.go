package registry

import (
	"context"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/internal/store/keyspace"
)

// probeTTL is how long the value of a probe stays.
const probeTTL = time.Minute

// Writable returns nil if every shard takes a write. A server can answer a PING and
// refuse what a check needs: a replica, or one whose memory is full.
func (s *Store) Writable(ctx context.Context) error {
	var commands valkey.Commands
	for _, b := range keyspace.All() {
		commands = append(commands, s.client.B().Set().Key(b.Name("probe")).Value("1").
			PxMilliseconds(probeTTL.Milliseconds()).Build().Pin()) // Retry may send them twice
	}
	_, err := store.Retry(ctx, func(ctx context.Context) (struct{}, error) { // also after a freeze
		for _, result := range s.client.DoMulti(ctx, commands...) {
			if err := result.Error(); err != nil {
				return struct{}{}, fmt.Errorf("registry: write: %w", err)
			}
		}
		return struct{}{}, nil
	})
	return err
}

// Usable returns nil if checks find the policy and the keys, in whatever version. It fails
// with policy.ErrMissing.
func (s *Store) Usable(ctx context.Context) error {
	var commands valkey.Commands
	for _, b := range keyspace.All() {
		read := s.client.B().Hget().Key(b.Records()).Field(keyspace.PositionField)
		commands = append(commands, read.Build())
	}
	missing := 0
	for _, result := range s.client.DoMulti(ctx, commands...) {
		err := result.Error()
		if valkey.IsValkeyNil(err) {
			missing++
		} else if err != nil {
			return fmt.Errorf("registry: read positions: %w", err)
		}
	}
	if missing > 0 {
		return fmt.Errorf("%w in %d of %d parts", policy.ErrMissing, missing, keyspace.Buckets)
	}
	return nil
}
