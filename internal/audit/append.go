package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

var appendScript = valkey.NewLuaScript(AppendFunction +
	`return append(KEYS[1], KEYS[2], unpack(ARGV)) and 1 or 0`)

// Append tells of something that changes no record, such as a login; the rest is told by
// the scripts that make the change. The entry is now's.
func (l *Log) Append(ctx context.Context, e Entry) error {
	bucket := keyspace.BucketOf(e.Subject)
	e.Time = time.Now().UTC()
	for {
		sealed, err := l.SealNext(ctx, bucket, e)
		if err != nil {
			return err
		}
		done, err := appendScript.Exec(ctx, l.client, Names(bucket), sealed.Args()).AsInt64()
		if err != nil {
			return fmt.Errorf("audit: append: %w", err)
		}
		if done == 1 {
			return nil
		}
	}
}

// SealNext makes e the entry behind the newest one of a bucket. It is stale when another
// comes first: then the script that appends it says so.
func (l *Log) SealNext(ctx context.Context, b keyspace.Bucket, e Entry) (Sealed, error) {
	head, err := l.Head(ctx, b)
	if err != nil {
		return Sealed{}, err
	}
	return l.key.Seal(b, head, e)
}
