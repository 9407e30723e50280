package objects

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// temporaryPrefix begins the names of files that are not yet objects.
const temporaryPrefix = ".new-"

// folder is a Store of files. An object appears whole: it is written under a temporary
// name, synced to disk, and then linked or renamed to its own.
type folder struct{ root string }

func openFolder(path string) (folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return folder{}, fmt.Errorf("objects: %w", err)
	}
	return folder{path}, nil
}

// Create implements Store.
func (f folder) Create(ctx context.Context, name string, content []byte) error {
	return f.put(ctx, name, content, os.Link)
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
	return f.put(ctx, name, content, os.Rename)
}

func (f folder) put(ctx context.Context, name string, content []byte,
	place func(from, to string) error) error {
	if _, err := os.Stat(f.root); err != nil { // the disk is not mounted: the folder must not be created
		return fmt.Errorf("objects: %w", err)
	}
	path := filepath.Join(f.root, filepath.FromSlash(name))
	dir := filepath.Dir(path)
	if err := f.makeDir(dir); err != nil {
		return fmt.Errorf("objects: %w", err)
	}
	temporary, err := os.CreateTemp(dir, temporaryPrefix+"*")
	if err != nil {
		return fmt.Errorf("objects: %w", err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // gone after a rename
	if _, err = temporary.Write(content); err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close(), inTime(ctx)); err == nil {
		err = place(temporary.Name(), path)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return ErrExists
	case err != nil:
		return fmt.Errorf("objects: %w", err)
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
		return fmt.Errorf("objects: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("objects: %w", err)
	}
	return nil
}

// Read implements Store.
func (f folder) Read(_ context.Context, name string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(f.root, filepath.FromSlash(name)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(f.root); err != nil { // the disk is not mounted
			return nil, fmt.Errorf("objects: %w", err)
		}
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("objects: %w", err)
	}
	return content, nil
}

// List implements Store. It reads only the folders that may have such objects.
func (f folder) List(_ context.Context, prefix, after string) ([]Object, error) {
	if _, err := os.Stat(f.root); err != nil { // the disk is not mounted
		return nil, fmt.Errorf("objects: %w", err)
	}
	found, err := f.list(nil, prefix, after)
	if err != nil {
		return nil, fmt.Errorf("objects: %w", err)
	}
	return found, nil
}

// list appends the objects below a folder, whose name ends in a slash.
func (f folder) list(found []Object, dir, after string) ([]Object, error) {
	entries, err := os.ReadDir(filepath.Join(f.root, filepath.FromSlash(dir)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		name := dir + e.Name()
		switch {
		case strings.HasPrefix(e.Name(), temporaryPrefix):
		case e.IsDir():
			if name += "/"; name > after || strings.HasPrefix(after, name) {
				if found, err = f.list(found, name, after); err != nil {
					return nil, err
				}
			}
		case name > after:
			info, err := e.Info()
			if err != nil {
				return nil, err
			}
			found = append(found, Object{name, info.Size(), info.ModTime()})
		}
	}
	return found, nil
}
