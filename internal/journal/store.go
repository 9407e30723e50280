// Package journal keeps every acknowledged change in a durable store: an S3 bucket or a
// folder. It stores each audit entry before the change is acknowledged. An entry's name
// is the number of its bucket and its position in that bucket's chain. A name is written
// once, so storing an entry twice changes nothing. Restore rebuilds from the journal what
// Valkey lost.
//
// The admin function and tools import it; the check function must not.
package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tidegate/internal/store/keyspace"
)

// Store keeps objects by name. It is safe for concurrent use. A name consists of letters,
// digits and hyphens, with slashes between its parts.
type Store interface {
	// Create stores an object unless there is one of the name: then it fails with
	// ErrExists. When it returns, the object is durable.
	Create(ctx context.Context, name string, content []byte) error
	// Replace stores an object in place of the one of the name, if any.
	Replace(ctx context.Context, name string, content []byte) error
	// Read returns an object. It fails with ErrNotFound.
	Read(ctx context.Context, name string) ([]byte, error)
}

var (
	// ErrExists means that there is an object of the name.
	ErrExists = errors.New("journal: the object exists")
	// ErrNotFound means that there is no object of the name.
	ErrNotFound = errors.New("journal: no such object")
)

// OpenStore returns the store at an address:
// s3://BUCKET[/PREFIX][?region=R][&endpoint=URL], or the path of a folder, which is made
// when it is not there.
func OpenStore(address string) (Store, error) {
	switch {
	case address == "":
		return nil, errors.New("journal: no address")
	case strings.HasPrefix(address, s3Scheme):
		return openS3(address)
	case strings.Contains(address, "://"):
		scheme, _, _ := strings.Cut(address, "://")
		return nil, fmt.Errorf("journal: cannot use %s://: give s3://BUCKET or the path of a folder", scheme)
	}
	return openFolder(address)
}

// CheckAddress reports what is wrong with an address, without opening it.
func CheckAddress(address string) error {
	if strings.HasPrefix(address, s3Scheme) {
		_, err := parseS3(address)
		return err
	}
	if strings.Contains(address, "://") {
		return errors.New("must be s3://BUCKET or the path of a folder")
	}
	return nil
}

// entryName is where the entry at a position of a bucket's chain lies. Its parts keep a
// folder at 1,000 files.
func entryName(b keyspace.Bucket, number uint64) string {
	return fmt.Sprintf("entry/%02x/%09d/%03d", byte(b), number/1000, number%1000)
}

// checkpointName is where the checkpoint of a bucket lies.
func checkpointName(b keyspace.Bucket) string { return fmt.Sprintf("checkpoint/%02x", byte(b)) }

// segmentName is where the segment of a bucket lies that begins with a number.
func segmentName(b keyspace.Bucket, first uint64) string {
	return fmt.Sprintf("history/%02x/%09d", byte(b), first)
}

// gapName is where it is noted that entries of a bucket behind a number were made without
// a journal: a checkpoint stands behind them. gapsName is there when there is any gap.
func gapName(b keyspace.Bucket, number uint64) string {
	return fmt.Sprintf("gap/%02x/%09d", byte(b), number)
}

const gapsName = "gaps"
