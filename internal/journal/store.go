package journal

import (
	"context"
	"fmt"

	"tidegate/internal/store/keyspace"
)

// Store keeps objects by name, as package objects does. It is safe for concurrent use.
type Store interface {
	// Create stores an object. It fails with objects.ErrExists if the name is taken.
	Create(ctx context.Context, name string, content []byte) error
	// Replace stores an object under a name, which may be taken, unless keep returns true
	// for the stored object. An object that another Replace stores meanwhile is not lost:
	// keep decides about it, too.
	Replace(ctx context.Context, name string, content []byte, keep func(stored []byte) bool) error
	// Read returns an object. It fails with objects.ErrNotFound.
	Read(ctx context.Context, name string) ([]byte, error)
}

// entryName names the entry at a position of a bucket's chain. Its parts keep a folder at
// 1,000 files.
func entryName(b keyspace.Bucket, number uint64) string {
	return fmt.Sprintf("entry/%02x/%09d/%03d", byte(b), number/1000, number%1000)
}

// checkpointName names the checkpoint of a bucket.
func checkpointName(b keyspace.Bucket) string { return fmt.Sprintf("checkpoint/%02x", byte(b)) }

// segmentName names the segment of a bucket whose oldest entry has this number.
func segmentName(b keyspace.Bucket, first uint64) string {
	return fmt.Sprintf("history/%02x/%09d", byte(b), first)
}

// gapName names the mark of a gap: the entries of a bucket after this number were made
// without a journal, and a checkpoint follows them. gapsName exists if there is any gap.
func gapName(b keyspace.Bucket, number uint64) string {
	return fmt.Sprintf("gap/%02x/%09d", byte(b), number)
}

const gapsName = "gaps"
