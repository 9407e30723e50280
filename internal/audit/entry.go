package audit

import (
	"encoding/hex"
	"encoding/json"
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
