package enforce

import (
	"context"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// Probe reads where Check of the call would, over the same connection, and takes nothing.
// The client may try it again by itself, which it must not do with a Check: so it finds a
// connection that was closed meanwhile, and leaves a good one. It needs no permission
// that Check does not.
func (c *Checker) Probe(ctx context.Context, call Call) error {
	err := c.client.Do(ctx, c.client.B().Get().Key(keyspace.Record(call.Subject)).Build()).Error()
	if err != nil && !valkey.IsValkeyNil(err) {
		return fmt.Errorf("policy: probe: %w", err)
	}
	return nil
}
