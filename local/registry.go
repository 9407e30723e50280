//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	valkeygo "github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/changes"
	"tidegate/internal/objects"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/local/valkey"
)

// developmentPepper is for a log of changes that stays after this program ends, so that
// later runs can use its keys. It protects nothing.
const developmentPepper = "tidegate local development pepper: protects nothing"

const (
	connectTimeout = 3 * time.Second
	writeTimeout   = 10 * time.Second // an edit is 256 scripts, and the embedded Valkey slow
	seedTimeout    = 30 * time.Second
)

// registrar is the registry of keys that the functions and the seeding share.
type registrar struct {
	url     string // may contain a password
	name    string // shown to the user; without a password
	pepper  string
	changes string // CHANGES_LOG
	client  valkeygo.Client
	keys    *registry.Store
	close   func()
}

// openRegistry opens the log of changes in a folder, and starts or connects to the Valkey
// that -valkey names. Without a folder the log is a temporary one, with a new pepper.
func openRegistry(ctx context.Context, name, data string, getenv func(string) string) (*registrar, error) {
	r := &registrar{pepper: getenv("KEY_PEPPER"), close: func() {}}
	if err := r.open(ctx, name, data); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *registrar) open(ctx context.Context, name, data string) error {
	note := ""
	switch {
	case data == "":
		r.pepper = randomHex(32)
	case r.pepper == "":
		r.pepper, note = developmentPepper, ", with the development pepper (KEY_PEPPER is not set)"
	}
	if err := r.openFolder(data); err != nil {
		return err
	}
	if err := r.openValkey(ctx, name); err != nil {
		return err
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	if data == "" {
		r.name += "; -data FOLDER would keep keys and policies"
		return nil
	}
	status, err := r.keys.Log().Status(ctx)
	r.name += fmt.Sprintf("%s, with the log of changes in %s (%d changes)", note, r.changes, status.Newest)
	return err
}

// openFolder makes the folder's path absolute, so that functions in any folder can use it.
func (r *registrar) openFolder(data string) (err error) {
	if data != "" {
		if r.changes, err = filepath.Abs(data); err != nil {
			return fmt.Errorf("-data: %w", err)
		}
		return nil
	}
	if r.changes, err = os.MkdirTemp("", "tidegate-"); err != nil {
		return fmt.Errorf("make a temporary folder (or give one with -data): %w", err)
	}
	r.onClose(func() { _ = os.RemoveAll(r.changes) })
	return nil
}

func (r *registrar) openValkey(ctx context.Context, name string) error {
	if name != "" && name != "auto" {
		r.url, r.name = name, withoutPassword(name)
		return nil
	}
	server, err := valkey.Embedded()
	if name == "auto" {
		server, err = valkey.Installed(ctx)
	}
	if err != nil {
		return fmt.Errorf("-valkey: %w", err)
	}
	r.onClose(server.Close)
	r.url, r.name = server.URL, server.Name+" at "+withoutPassword(server.URL)
	return nil
}

// connect opens the client, which checks that Valkey responds, and the log.
func (r *registrar) connect(ctx context.Context) error {
	pepper, err := apikey.NewPepper(r.pepper)
	if err != nil {
		return fmt.Errorf("KEY_PEPPER: %w", err)
	}
	log, err := objects.Open(r.changes)
	if err != nil {
		return fmt.Errorf("-data: %w", err)
	}
	r.client, err = store.Open(ctx, r.url, store.Options{Dial: connectTimeout, Write: writeTimeout})
	if err != nil {
		return fmt.Errorf("-valkey: %w (is it running? -valkey auto starts an installed one, and without "+
			"-valkey one runs in process)", err)
	}
	r.onClose(r.client.Close)
	r.keys = registry.New(r.client, log, pepper)
	return nil
}

// catchUpTimeout is enough for a million keys on a slow disk.
const catchUpTimeout = 10 * time.Minute

// catchUp begins the log if it is empty, and brings Valkey to its newest change.
func (r *registrar) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	err := r.keys.Start(ctx)
	_, damaged := errors.AsType[*changes.DamagedError](err)
	switch {
	case errors.Is(err, changes.ErrAhead):
		return fmt.Errorf("-valkey: %w: give the -data of the Valkey, or an empty Valkey", err)
	case damaged:
		return fmt.Errorf("-data %s: %w (is KEY_PEPPER that of the runs before?)", r.changes, err)
	case err != nil:
		return fmt.Errorf("-data %s: %w", r.changes, err)
	}
	return nil
}

// onClose makes close call do before what it did so far.
func (r *registrar) onClose(do func()) {
	before := r.close
	r.close = func() {
		do()
		before()
	}
}

// withoutPassword returns the hosts of a URL.
func withoutPassword(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		rest = rest[:end]
	}
	return rest[strings.LastIndexByte(rest, '@')+1:]
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b)
}
