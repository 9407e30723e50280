package journal

import (
	"context"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/store/keyspace"
)

// A mark is what one look finds of a bucket in Valkey.
type mark struct {
	head       []byte
	unshipped  int64
	checkpoint uint64 // number of the newest entry in its checkpoint, as far as Valkey knows
}

func checkpointMarkKey(b keyspace.Bucket) string { return b.Name("ac") }

// marks reads all buckets in one flush.
func (j *Journal) marks(ctx context.Context) ([]mark, error) {
	const each = 3
	var commands valkey.Commands
	for _, b := range keyspace.All() {
		commands = append(commands,
			j.client.B().Get().Key(audit.HeadKey(b)).Build(),
			j.client.B().Llen().Key(audit.UnshippedKey(b)).Build(),
			j.client.B().Get().Key(checkpointMarkKey(b)).Build())
	}
	found := make([]mark, keyspace.Buckets)
	for i, result := range j.client.DoMulti(ctx, commands...) {
		m, err := &found[i/each], error(nil)
		switch i % each {
		case 0:
			m.head, err = result.AsBytes()
		case 1:
			m.unshipped, err = result.AsInt64()
		case 2:
			m.checkpoint, err = result.AsUint64()
		}
		if err != nil && !valkey.IsValkeyNil(err) {
			return nil, fmt.Errorf("journal: read heads: %w", err)
		}
	}
	return found, nil
}
