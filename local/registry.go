//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/local/valkey"
)

// developmentPepper serves a Valkey that outlives this program: keys made in one run must
// be readable in the next. It protects nothing.
const developmentPepper = "tidegate local development pepper: protects nothing"

const (
	connectTimeout = 3 * time.Second
	seedTimeout    = 10 * time.Second
)

// registry is the store of keys that the functions and the seeding share.
type registrar struct {
	url    string // may hold a password
	name   string // for people; holds none
	pepper string
	keys   *registry.Store
	close  func()
}

// openRegistry starts or connects to the Valkey that the flag names.
func openRegistry(ctx context.Context, name string, getenv func(string) string) (*registrar, error) {
	switch name {
	case "":
		return startRegistry(ctx, valkey.Embedded)
	case "auto":
		return startRegistry(ctx, func() (*valkey.Server, error) { return valkey.Installed(ctx) })
	}
	r := &registrar{url: name, name: withoutPassword(name), pepper: getenv("KEY_PEPPER"), close: func() {}}
	if r.pepper == "" {
		r.pepper = developmentPepper
		r.name += ", with the development pepper (KEY_PEPPER is not set)"
	}
	return r, r.connect(ctx)
}

func startRegistry(ctx context.Context, start func() (*valkey.Server, error)) (*registrar, error) {
	server, err := start()
	if err != nil {
		return nil, fmt.Errorf("-valkey: %w", err)
	}
	r := &registrar{url: server.URL, name: server.Name + " at " + withoutPassword(server.URL),
		pepper: randomHex(32), close: server.Close}
	if err := r.connect(ctx); err != nil {
		server.Close()
		return nil, err
	}
	return r, nil
}

// connect makes sure that the store answers before anything relies on it.
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
	r.keys = registry.NewStore(client, pepper)
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
