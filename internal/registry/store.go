// Package registry edits keys, the policy set, groups and machine tokens. They are records
// of the log of changes (package changes), whose view in Valkey it reads. Only the admin
// function and tools import the package; the check function must not.
package registry

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/changes"
	"tidegate/internal/objects"
	"tidegate/internal/policy"
)

// Errors beside a valid result: the edit is made, but not all that an edit promises.
var (
	// ErrNotInForce means that an edit is saved, but Valkey did not take it yet.
	ErrNotInForce = errors.New("saved; in force when Valkey is back")
	// ErrNotStored means that a revocation or a ban is in force, but not in the log yet.
	ErrNotStored = errors.New("in force; not yet stored")
	// ErrNotReplicated means that no replica confirmed an edit.
	ErrNotReplicated = errors.New("saved; a failover in the next minute may delay it")
)

// Store reads and edits the policy set, keys, groups and machine tokens for the admin
// function. It is safe for concurrent use.
type Store struct {
	client   valkey.Client
	log      *changes.Log
	pepper   apikey.Pepper
	subjects apikey.Key
	Now      func() time.Time

	// ForeignKeys lets Create take values that another system made. It is set before the
	// first use.
	ForeignKeys bool
}

// New returns a Store on a connected client and the store of the log.
func New(client valkey.Client, store objects.Store, pepper apikey.Pepper) *Store { panic("todo") }

// Log returns the log of changes.
func (s *Store) Log() *changes.Log { panic("todo") }

// Start writes change 1 with an empty policy if the log is empty, and brings Valkey to the
// newest change.
func (s *Store) Start(ctx context.Context) error { panic("todo") }

// CatchUp brings Valkey to the newest change, stores marks and writes checkpoints. It runs
// once a minute.
func (s *Store) CatchUp(ctx context.Context) error { panic("todo") }

// TokenCaller returns the id that checks give to the caller with this name at a token
// issuer.
func (s *Store) TokenCaller(issuer, name string) string { panic("todo") }

// AddressCaller returns the id that checks give to clients whose address has this prefix.
func (s *Store) AddressCaller(prefix netip.Prefix) string { panic("todo") }

// Writable returns nil if every shard takes a write.
func (s *Store) Writable(ctx context.Context) error { panic("todo") }

// Usable returns nil if checks find the policy and the keys, in whatever version. It fails
// with policy.ErrMissing.
func (s *Store) Usable(ctx context.Context) error { panic("todo") }

// Set returns the policy set in force, without the overrides of groups that ended.
func (s *Store) Set(ctx context.Context) (*policy.Set, error) { panic("todo") }

// SaveSet replaces the policy set; see set.go.
func (s *Store) SaveSet(ctx context.Context, next policy.Set, edit Edit) (*policy.Set, error) {
	panic("todo")
}

// CheckSet returns next as SaveSet would save it in place of current.
func (s *Store) CheckSet(ctx context.Context, next policy.Set, current *policy.Set) (*policy.Set, error) {
	panic("todo")
}
