// Package audit keeps who changed what, when and why. Entries are only ever appended, each in the same script as the change it tells of, and each
// carries an HMAC-SHA-256 over itself and the entry before it, under a key that Valkey does not have: an entry that was altered, inserted or taken
// out from between others is found by Verify. What Verify cannot see is that the newest entries of a chain are missing, or a whole chain.
//
// A change and its entry share a slot, so every bucket of the key space has a chain of its own, a stream; List merges them by time.
package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"tidegate/internal/keyspace"
)

// Actor is who made a change.
type Actor struct {
	Kind string `json:"kind"` // "user", "token" or "system"
	Name string `json:"name"`
}

// Entry is one change.
type Entry struct {
	ID       string          `json:"id"` // where it lies: milliseconds-sequence-bucket; newer entries of a bucket have greater ones
	Time     time.Time       `json:"time"`
	By       Actor           `json:"by"`
	Action   string          `json:"action"` // what was done, such as "key.create"
	Subject  string          `json:"subject"`
	Name     string          `json:"name,omitempty"` // the subject's, for people
	Reason   string          `json:"reason,omitempty"`
	Version  int64           `json:"version"`          // the subject's, after the change
	Before   json.RawMessage `json:"before,omitempty"` // the subject before; absent when it was created
	After    json.RawMessage `json:"after,omitempty"`  // the subject after; absent when it was deleted
	Previous string          `json:"previous"`         // hash of the entry before, hex; empty for the first of a chain
	Hash     string          `json:"hash"`             // hex
}

// body is the part of an Entry that is stored and hashed.
type body struct {
	Time    time.Time       `json:"t"`
	By      Actor           `json:"by"`
	Action  string          `json:"a"`
	Subject string          `json:"s"`
	Name    string          `json:"n,omitempty"`
	Reason  string          `json:"r,omitempty"`
	Version int64           `json:"v"`
	Before  json.RawMessage `json:"b,omitempty"`
	After   json.RawMessage `json:"c,omitempty"`
}

// Sealed is an entry ready to be appended behind the one that it was sealed for.
type Sealed struct {
	Previous []byte // 32 bytes; empty for the first of a chain
	Body     []byte
	Hash     []byte // 32 bytes
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

// Seal makes e the next entry of bucket b after the one with the hash previous. ID, Previous and Hash of e are ignored.
func (k Key) Seal(b keyspace.Bucket, previous []byte, e Entry) (Sealed, error) {
	text, err := json.Marshal(body{e.Time.UTC(), e.By, e.Action, e.Subject, e.Name, e.Reason, e.Version, e.Before, e.After})
	if err != nil {
		return Sealed{}, fmt.Errorf("audit: seal: %w", err)
	}
	return Sealed{Previous: previous, Body: text, Hash: k.hash(b, previous, text)}, nil
}

// hash covers the bucket, so that a chain cannot be passed off as another's.
func (k Key) hash(b keyspace.Bucket, previous, text []byte) []byte {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte{byte(b), byte(len(previous))})
	mac.Write(previous)
	mac.Write(text)
	return mac.Sum(nil)
}

// decode reads a stored entry. The hash is not checked.
func decode(id string, text, hash, previous []byte) (Entry, error) {
	var b body
	if err := json.Unmarshal(text, &b); err != nil {
		return Entry{}, fmt.Errorf("audit: entry %s: %w", id, err)
	}
	return Entry{
		ID: id, Time: b.Time, By: b.By, Action: b.Action, Subject: b.Subject, Name: b.Name, Reason: b.Reason, Version: b.Version,
		Before: b.Before, After: b.After, Previous: hex.EncodeToString(previous), Hash: hex.EncodeToString(hash),
	}, nil
}
