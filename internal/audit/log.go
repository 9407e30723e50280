// Package audit records who changed what, when and why. Entries are only appended, each
// by the script that makes the change. Each has an HMAC-SHA-256 over itself and the entry
// before it, under a key that Valkey does not have. The same script writes the chain's
// head: the number of entries and the newest one, under another HMAC. So Verify finds an
// entry that was altered, inserted, moved or removed, and entries missing at either end
// of a chain.
//
// Verify does not find a chain that was reset with its head to an earlier state, by
// somebody who read the head then. Nor does it find that a chain is missing with its
// head. An attacker who gains access to Valkey can therefore not remove single entries
// recorded before, only all of them.
//
// A change and its entry share a slot, so every bucket of the key space has its own
// chain, a stream. List merges the chains by time. With a journal, old entries may be
// only in its segments: List, Get and Verify continue there where a stream begins. An
// entry contains its subject before and after the change, so that it can be read, checked
// and reverted alone. Large entries are stored packed, and hashed as they are stored.
package audit

import (
	"context"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// Names are the keys of a bucket's chain: its stream, its head, and its list of items
// that the journal does not have yet.
func Names(b keyspace.Bucket) []string { return []string{Stream(b), HeadKey(b), UnshippedKey(b)} }

// UnshippedKey names the list of items of a bucket that the journal does not have yet,
// oldest first.
func UnshippedKey(b keyspace.Bucket) string { return b.Name("aj") }

// Stream names the chain of a bucket.
func Stream(b keyspace.Bucket) string { return b.Name("a") }

// Log reads the chains. It is safe for concurrent use.
type Log struct {
	client  valkey.Client
	key     Key
	journal Journal // nil for none
}

// NewLog returns a Log on a connected client.
func NewLog(client valkey.Client, key Key) *Log { return &Log{client: client, key: key} }

// Key returns what entries are sealed with.
func (l *Log) Key() Key { return l.key }

// Head returns what the next entry of a bucket is to be sealed for.
func (l *Log) Head(ctx context.Context, b keyspace.Bucket) ([]byte, error) {
	head, err := l.client.Do(ctx, l.client.B().Get().Key(HeadKey(b)).Build()).AsBytes()
	if err != nil && !valkey.IsValkeyNil(err) {
		return nil, fmt.Errorf("audit: head: %w", err)
	}
	return head, nil
}
