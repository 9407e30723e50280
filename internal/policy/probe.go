package policy

import (
	"context"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
)

// Probe reads where Check of the secret would, over the same connection, and takes nothing. The client may try it again by itself, which it must
// not do with a Check: so it finds a connection that was closed meanwhile, and leaves a good one. It needs no permission that Check does not.
func (s *Store) Probe(ctx context.Context, secret apikey.Secret) error {
	err := s.client.Do(ctx, s.client.B().Get().Key(recordKey(secret.ID())).Build()).Error()
	if err != nil && !valkey.IsValkeyNil(err) {
		return fmt.Errorf("policy: probe: %w", err)
	}
	return nil
}
