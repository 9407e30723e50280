//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	valkeygo "github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/objects"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/local/valkey"
)

// developmentPepper is for a Valkey that stays up after this program ends, so that later
// runs can use its keys. It protects nothing.
const developmentPepper = "tidegate local development pepper: protects nothing"

const (
	connectTimeout = 3 * time.Second
	seedTimeout    = 10 * time.Second
)

// registrar is the registry of keys that the functions and the seeding share.
type registrar struct {
	url    string // may contain a password
	name   string // shown to the user; without a password
	pepper string
	// journal is the journal's address, with an absolute path so that functions in any
	// folder can use it; empty for none.
	journal string
	client  valkeygo.Client
	keys    *registry.Store
	close   func()
}

// openRegistry starts or connects to the Valkey that -valkey names. A Valkey that it
// starts gets a new pepper, unless a journal stores its keys.
func openRegistry(
	ctx context.Context, name string, journaled bool, getenv func(string) string,
) (*registrar, error) {
	pepper, note := getenv("KEY_PEPPER"), ""
	if pepper == "" {
		pepper, note = developmentPepper, ", with the development pepper (KEY_PEPPER is not set)"
	}
	if !journaled && (name == "" || name == "auto") {
		pepper, note = randomHex(32), ""
	}
	switch name {
	case "":
		return startRegistry(ctx, pepper, note, valkey.Embedded)
	case "auto":
		return startRegistry(ctx, pepper, note, func() (*valkey.Server, error) {
			return valkey.Installed(ctx)
		})
	}
	r := &registrar{url: name, name: withoutPassword(name) + note, pepper: pepper, close: func() {}}
	return r, r.connect(ctx)
}

func startRegistry(
	ctx context.Context, pepper, note string, start func() (*valkey.Server, error),
) (*registrar, error) {
	server, err := start()
	if err != nil {
		return nil, fmt.Errorf("-valkey: %w", err)
	}
	r := &registrar{url: server.URL, name: server.Name + " at " + withoutPassword(server.URL) + note,
		pepper: pepper, close: server.Close}
	if err := r.connect(ctx); err != nil {
		server.Close()
		return nil, err
	}
	return r, nil
}

// connect opens the client, which checks that Valkey responds.
func (r *registrar) connect(ctx context.Context) error {
	pepper, err := apikey.NewPepper(r.pepper)
	if err != nil {
		return fmt.Errorf("KEY_PEPPER: %w", err)
	}
	client, err := store.Open(ctx, r.url, store.Options{Dial: connectTimeout, Write: connectTimeout})
	if err != nil {
		return fmt.Errorf("-valkey: %w (is it running? -valkey auto starts an installed one, and without "+
			"-valkey one runs in process)", err)
	}
	r.client, r.keys = client, registry.NewStore(client, pepper)
	stop := r.close
	r.close = func() {
		client.Close()
		stop()
	}
	return nil
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

// restoreTimeout is the time for a restore at the start, enough for a million keys on a
// slow disk.
const restoreTimeout = 10 * time.Minute

// openJournal restores changes that Valkey lost, and stores every later change in the
// journal at the address.
func (r *registrar) openJournal(ctx context.Context, address string, log *slog.Logger) error {
	if address == "" {
		return nil
	}
	var err error
	if !strings.Contains(address, "://") {
		if address, err = filepath.Abs(address); err != nil {
			return fmt.Errorf("-journal: %w", err)
		}
	}
	store, err := objects.Open(address)
	if err != nil {
		return fmt.Errorf("-journal: %w", err)
	}
	r.journal = address
	j := journal.New(store, r.client, audit.NewKey(apikey.Pepper(r.pepper)), false, log)
	r.keys.Audit().UseJournal(j)
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	done, err := j.RestoreAll(ctx, r.keys, journal.Options{}, nil, nil)
	if errors.Is(err, audit.ErrItem) {
		return fmt.Errorf("-journal: %w: set KEY_PEPPER to that of the runs before", err)
	}
	if errors.Is(err, journal.ErrNotRestored) { // the start of the function stores what it can
		log.Warn("restore", "cause", err)
	} else if err != nil {
		return fmt.Errorf("-journal: %w", err)
	}
	r.name += fmt.Sprintf(", with the journal in %s (%d records restored)", address, done.Records)
	return nil
}
