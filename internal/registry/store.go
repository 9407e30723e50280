// Package registry edits keys and the policy set. Every edit and its audit entry are one
// atomic step in Valkey. A save of the set writes the set, its mirrors and a copy of the
// plans in every bucket, and is acknowledged when all are written; Sync makes them agree
// after a failover left them apart. Only the admin function and tools import it; the
// check function must not.
package registry

import (
	"net/netip"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/policyset"
)

// Store is the administration's side: it reads and writes the Set and the keys. It is
// safe for concurrent use.
type Store struct {
	client    valkey.Client
	pepper    apikey.Pepper
	addresses policyset.AddressKey
	subjects  apikey.Key
	audit     *audit.Log
	Now       func() time.Time

	// ForeignKeys lets Create take values that another system made. It is set before the
	// first use.
	ForeignKeys bool
}

// NewStore returns a Store on a connected client.
func NewStore(client valkey.Client, pepper apikey.Pepper) *Store {
	return &Store{client: client, pepper: pepper, addresses: policyset.NewAddressKey(pepper),
		subjects: apikey.NewKey(pepper),
		audit:    audit.NewLog(client, audit.NewKey(pepper)), Now: time.Now}
}

// TokenCaller returns the id that checks give to the caller with this name at a token
// issuer.
func (s *Store) TokenCaller(issuer, name string) string { return s.subjects.Token(issuer, name) }

// AddressCaller returns the id that checks give to clients whose address has this prefix.
func (s *Store) AddressCaller(prefix netip.Prefix) string { return s.subjects.Address(prefix) }

// Audit returns the log that records every change.
func (s *Store) Audit() *audit.Log { return s.audit }
