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
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// Actor is the author of a change.
type Actor struct {
	Kind string `json:"kind"` // "user", "token" or "system"
	Name string `json:"name"`
}

// Entry is one change.
type Entry struct {
	// the position, milliseconds-sequence-bucket; it increases within a bucket
	ID      string          `json:"id"`
	Time    time.Time       `json:"time"`
	By      Actor           `json:"by"`
	Action  string          `json:"action"` // such as "key.create"
	Subject string          `json:"subject"`
	Name    string          `json:"name,omitempty"` // the subject's, for people
	Reason  string          `json:"reason,omitempty"`
	Job     string          `json:"job,omitempty"`    // id of the bulk job that made the change
	Version int64           `json:"version"`          // the subject's, after the change
	Before  json.RawMessage `json:"before,omitempty"` // the subject before; absent when it was created
	After   json.RawMessage `json:"after,omitempty"`  // the subject after; absent when it was deleted
	// hash of the entry before, hex; empty for the first of a chain
	Previous string `json:"previous"`
	Hash     string `json:"hash"` // hex

	packed *pack // Before and After, until Opened
}

// Opened returns the entry with Before and After, which a Query of Heads may leave
// packed.
func (e Entry) Opened() Entry {
	if e.packed == nil {
		return e
	}
	before, after, ok := e.packed.open()
	if !ok {
		return e.bare()
	}
	e.Before, e.After, e.packed = before, after, nil
	return e
}

// Creates reports whether the entry has no state before the change.
func (e Entry) Creates() bool { return len(e.Before) == 0 && (e.packed == nil || e.packed.Before == 0) }

// Taken returns when Valkey took the entry, by its own clock.
func (e Entry) Taken() time.Time { return time.UnixMilli(int64(positionOf(e.ID).ms)).UTC() }

// bare returns the fields that are known of an entry that cannot be decoded.
func (e Entry) bare() Entry {
	return Entry{ID: e.ID, Time: e.Taken(),
		Previous: e.Previous, Hash: e.Hash}
}

// body is the stored and hashed form of an Entry. Releases without Packed read the other
// fields.
type body struct {
	Time    time.Time       `json:"t"`
	By      Actor           `json:"by"`
	Action  string          `json:"a"`
	Subject string          `json:"s"`
	Name    string          `json:"n,omitempty"`
	Reason  string          `json:"r,omitempty"`
	Job     string          `json:"j,omitempty"`
	Version int64           `json:"v"`
	Before  json.RawMessage `json:"b,omitempty"`
	After   json.RawMessage `json:"c,omitempty"`
	Packed  *pack           `json:"z,omitempty"` // in place of Before and After
}

// Sealed is an entry ready to be appended behind the head that it was sealed for.
type Sealed struct {
	Head []byte // of the chain before; empty for the first entry
	Body []byte
	Hash []byte // 32 bytes
	Next []byte // the chain's head after
	Item []byte // what the journal stores of the entry; empty without a journal
}

// Args are the arguments of the Lua function append from its fourth on.
func (s Sealed) Args() []string {
	return []string{string(s.Head), string(s.Body), string(s.Hash), string(s.Next), string(s.Item)}
}

// Key makes and checks the hashes.
type Key [sha256.Size]byte

// NewKey derives the audit's key from the secret that API keys are hashed with.
func NewKey(secret []byte) Key {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("tidegate audit chain"))
	return Key(mac.Sum(nil))
}

// String hides the key.
func (Key) String() string { return "audit key" }

// GoString hides the key.
func (Key) GoString() string { return "audit key" }

// Seal makes e the next entry of a bucket, behind what head stands for. ID, Previous and
// Hash of e are ignored.
func (k Key) Seal(bucket keyspace.Bucket, head []byte, e Entry) (Sealed, error) {
	b := body{e.Time.UTC(), e.By, e.Action, e.Subject, e.Name, e.Reason, e.Job, e.Version, e.Before, e.After,
		nil}
	var err error
	if b.Packed, err = packed(e.Before, e.After); err != nil {
		return Sealed{}, fmt.Errorf("audit: seal: %w", err)
	}
	if b.Packed != nil {
		b.Before, b.After = nil, nil
	}
	text, err := json.Marshal(b)
	if err != nil {
		return Sealed{}, fmt.Errorf("audit: seal: %w", err)
	}
	entries, previous := openHead(head)
	hash := k.hash(bucket, previous, text)
	return Sealed{Head: head, Body: text, Hash: hash, Next: k.head(bucket, entries+1, hash)}, nil
}

// hash covers the bucket, so that a chain cannot be passed off as another's.
func (k Key) hash(b keyspace.Bucket, previous, text []byte) []byte {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte{byte(b), byte(len(previous))})
	mac.Write(previous)
	mac.Write(text)
	return mac.Sum(nil)
}

// decode reads the first of some stored entries, newest first, of which the next is the
// one before it. The hash is not checked. It is to be Opened.
func decode(b keyspace.Bucket, found []valkey.XRangeEntry) Entry {
	e := Entry{ID: idOf(b, found[0]), Hash: hex.EncodeToString([]byte(found[0].FieldValues["h"]))}
	if len(found) > 1 {
		e.Previous = hex.EncodeToString([]byte(found[1].FieldValues["h"]))
	}
	return e.decoded([]byte(found[0].FieldValues["e"]))
}

// decoded returns the entry with what its body says.
func (e Entry) decoded(text []byte) Entry {
	var t body
	if err := json.Unmarshal(text, &t); err != nil {
		return e.bare()
	}
	e.Time, e.By, e.Action, e.Subject, e.Name, e.Reason = t.Time, t.By, t.Action, t.Subject, t.Name, t.Reason
	e.Job, e.Version, e.Before, e.After, e.packed = t.Job, t.Version, t.Before, t.After, t.Packed
	return e
}

func idOf(b keyspace.Bucket, x valkey.XRangeEntry) string { return x.ID + "-" + strconv.Itoa(int(b)) }
