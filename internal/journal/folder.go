package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// folder is a Store of files. An object appears whole: it is written under another name,
// reaches the disk, and is linked to its own.
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

// Replace implements Store.
func (f folder) Replace(_ context.Context, name string, content []byte) error {
	return f.put(name, content, os.Rename)
}

func (f folder) put(name string, content []byte, place func(from, to string) error) error {
	if _, err := os.Stat(f.root); err != nil { // the disk is away: its folder is not to be made here
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
	_, err = temporary.Write(content)
	if err == nil {
		err = temporary.Sync()
	}
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
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

// makeDir makes a folder, and the names of new ones durable.
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
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// Read implements Store.
func (f folder) Read(_ context.Context, name string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(f.root, filepath.FromSlash(name)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(f.root); err != nil { // the disk is away, and not the object
			return nil, fmt.Errorf("journal: %w", err)
		}
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("journal: %w", err)
	}
	return content, nil
}
