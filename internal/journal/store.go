package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"tidegate/internal/store/keyspace"
)

// Store keeps objects by name. It is safe for concurrent use. A name consists of letters,
// digits and hyphens, with slashes between its parts.
type Store interface {
	// Create stores an object. It fails with ErrExists if the name is taken. After a nil
	// error the object is durable.
	Create(ctx context.Context, name string, content []byte) error
	// Replace stores an object under a name, which may be taken, unless keep returns true
	// for the stored object. An object that another Replace stores meanwhile is not lost:
	// keep decides about it, too.
	Replace(ctx context.Context, name string, content []byte, keep func(stored []byte) bool) error
	// Read returns an object. It fails with ErrNotFound.
	Read(ctx context.Context, name string) ([]byte, error)
}

var (
	// ErrExists means that the name is taken.
	ErrExists = errors.New("journal: the object exists")
	// ErrNotFound means that no object has the name.
	ErrNotFound = errors.New("journal: no such object")
)

// OpenStore returns the store at an address:
// s3://BUCKET[/PREFIX][?region=R][&endpoint=URL], or the path of a folder, which
// OpenStore creates if needed.
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

// folder is a Store of files. An object appears whole: it is written under a temporary
// name, synced to disk, and then linked or renamed to its own.
type folder struct{ root string }

func openFolder(path string) (folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return folder{}, fmt.Errorf("journal: %w", err)
	}
	return folder{path}, nil
}

// Create implements Store.
func (f folder) Create(_ context.Context, name string, content []byte) error {
	return f.put(name, content, os.Link)
}

// replacing makes a folder's Replace one step. One process at a time uses a folder.
var replacing sync.Mutex

// Replace implements Store.
func (f folder) Replace(ctx context.Context, name string, content []byte, keep func([]byte) bool) error {
	replacing.Lock()
	defer replacing.Unlock()
	stored, err := f.Read(ctx, name)
	switch {
	case err == nil && keep(stored):
		return nil
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	}
	return f.put(name, content, os.Rename)
}

func (f folder) put(name string, content []byte, place func(from, to string) error) error {
	if _, err := os.Stat(f.root); err != nil { // the disk is not mounted: the folder must not be created
		return fmt.Errorf("journal: %w", err)
	}
	path := filepath.Join(f.root, filepath.FromSlash(name))
	dir := filepath.Dir(path)
	if err := f.makeDir(dir); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	temporary, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // gone after a rename
	if _, err = temporary.Write(content); err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = place(temporary.Name(), path)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return ErrExists
	case err != nil:
		return fmt.Errorf("journal: %w", err)
	}
	return syncDir(dir)
}

// makeDir creates a folder and those above it, and syncs their names to disk.
func (f folder) makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for at := filepath.Dir(dir); len(at) >= len(f.root); at = filepath.Dir(at) {
		if err := syncDir(at); err != nil {
			return err
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// Read implements Store.
func (f folder) Read(_ context.Context, name string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(f.root, filepath.FromSlash(name)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(f.root); err != nil { // the disk is not mounted
			return nil, fmt.Errorf("journal: %w", err)
		}
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("journal: %w", err)
	}
	return content, nil
}
