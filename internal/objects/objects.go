// Package objects keeps named objects in a folder or an S3 bucket, whole or not at all. The
// log of changes is made of them. It does not know what they contain.
//
// Create gives a name to one of any number of writers, in any number of processes. In a
// folder an object is written under a temporary name, synced and linked, and then its
// folder is synced. In S3 a put has If-None-Match: *.
//
// No attempt begins after the deadline of its context by the wall clock. A context alone
// ends by the monotonic clock, which may stand still while a function is frozen.
package objects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Store keeps objects by name. It is safe for concurrent use. A name consists of letters,
// digits and hyphens, with slashes between its parts.
type Store interface {
	// Create stores an object. It fails with ErrExists if the name is taken. After a nil
	// error the object is durable. After any other error it may be there, or get there.
	Create(ctx context.Context, name string, content []byte) error
	// Replace stores an object under a name, which may be taken, unless keep returns true
	// for the stored object. An object that another Replace stores meanwhile is not lost:
	// keep decides about it, too.
	Replace(ctx context.Context, name string, content []byte, keep func(stored []byte) bool) error
	// Read returns an object. It fails with ErrNotFound.
	Read(ctx context.Context, name string) ([]byte, error)
	// List returns the objects whose names begin with a prefix, which ends in a slash, and
	// are greater than after, in binary order.
	List(ctx context.Context, prefix, after string) ([]Object, error)
}

// Object is an object in a list.
type Object struct {
	Name     string
	Size     int64     // bytes
	Modified time.Time // by the clock of the store
}

var (
	// ErrExists means that the name is taken.
	ErrExists = errors.New("objects: the object exists")
	// ErrNotFound means that no object has the name.
	ErrNotFound = errors.New("objects: no such object")
)

// Open returns the store at an address:
// s3://BUCKET[/PREFIX][?region=R][&endpoint=URL], or the path of a folder, which
// Open creates if needed.
func Open(address string) (Store, error) {
	switch {
	case address == "":
		return nil, errors.New("objects: no address")
	case strings.HasPrefix(address, s3Scheme):
		return openS3(address)
	case strings.Contains(address, "://"):
		scheme, _, _ := strings.Cut(address, "://")
		return nil, fmt.Errorf("objects: cannot use %s://: give s3://BUCKET or the path of a folder", scheme)
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

// inTime returns an error after the deadline of ctx by the wall clock.
func inTime(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && time.Now().Round(0).After(deadline.Round(0)) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}
