// Package registry edits keys, the policy set, groups and machine tokens. They are records
// of the log of changes (package changes), whose view in Valkey it reads: an edit is judged
// on records at the newest change, so edits of all writers are serial. Only the admin
// function and tools import the package; the check function must not.
//
// The records are the policy set (keyspace.PolicyID), keys by their ids, groups by
// policy.GroupID, and machine tokens by "token:" and their ids. The version of a key and of
// the policy set is the number of its record's last change.
package registry

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/changes"
	"tidegate/internal/objects"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
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
func New(client valkey.Client, store objects.Store, pepper apikey.Pepper) *Store {
	s := &Store{client: client, pepper: pepper, subjects: apikey.NewKey(pepper), Now: time.Now}
	s.log = changes.New(store, changes.OnValkey(client), changes.Options{
		Key: pepper.Derive("changes"), Lists: lists, Name: nameOf, Settle: settle, Revert: revert,
	})
	return s
}

// Log returns the log of changes.
func (s *Store) Log() *changes.Log { return s.log }

// Start writes change 1 with an empty policy if the log is empty, and brings Valkey to the
// newest change.
func (s *Store) Start(ctx context.Context) error {
	empty, err := policyset.EncodeSet(&policy.Set{NextNumber: 1})
	if err != nil {
		return err
	}
	return s.log.Start(ctx, empty)
}

// CatchUp brings Valkey to the newest change, stores marks and writes checkpoints. It runs
// once a minute.
func (s *Store) CatchUp(ctx context.Context) error { return s.log.CatchUp(ctx) }

// TokenCaller returns the id that checks give to the caller with this name at a token
// issuer.
func (s *Store) TokenCaller(issuer, name string) string { return s.subjects.Token(issuer, name) }

// AddressCaller returns the id that checks give to clients whose address has this prefix.
func (s *Store) AddressCaller(prefix netip.Prefix) string { return s.subjects.Address(prefix) }

// acknowledge returns what a receipt says beside the result of an edit.
func acknowledge(r changes.Receipt) error {
	switch {
	case r.Number == 0: // nothing changed
		return nil
	case !r.InForce:
		return ErrNotInForce
	case !r.Replicated:
		return ErrNotReplicated
	}
	return nil
}

// made reports whether an edit with this error was made, or may have been.
func made(err error) bool {
	return err == nil || errors.Is(err, ErrNotInForce) || errors.Is(err, ErrNotReplicated) ||
		errors.Is(err, ErrNotStored) || errors.Is(err, changes.ErrUnknown)
}

const (
	groupPrefix = "group-" // of policy.GroupID
	tokenPrefix = "token:" // of the records of machine tokens
)

// validID reports whether a text can be a caller's id: 1 to 64 letters, digits, hyphens and
// underscores, but not another record.
func validID(id string) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) && id != changes.Policy && !strings.HasPrefix(id, groupPrefix)
}

// nameOf returns what people call a record; empty for one that cannot be read.
func nameOf(record string, content []byte) string {
	switch {
	case record == changes.Policy:
		return ""
	case strings.HasPrefix(record, groupPrefix):
		_, name := policyset.GroupReset(content)
		return name
	case strings.HasPrefix(record, tokenPrefix):
		t, _, _ := decodeToken(record, content)
		return t.Name
	}
	k, _, _ := policyset.DecodeRecord(record, 0, content)
	return k.Name
}

// invalid returns an *InvalidError about one field.
func invalid(field, problem string) error {
	return policy.Invalid([]policy.FieldError{{Field: field, Message: problem}})
}
