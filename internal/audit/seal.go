package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"tidegate/internal/store/keyspace"
)

// Key makes and checks the HMACs of entries, heads and items.
type Key [sha256.Size]byte

// NewKey derives the audit's key from the pepper of API keys.
func NewKey(secret []byte) Key {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("tidegate audit chain"))
	return Key(mac.Sum(nil))
}

// String hides the key.
func (Key) String() string { return "audit key" }

// GoString hides the key.
func (Key) GoString() string { return "audit key" }

// Seal makes e the next entry of the bucket's chain with this head. It ignores the ID,
// Previous and Hash of e.
func (k Key) Seal(bucket keyspace.Bucket, head []byte, e Entry) (Sealed, error) {
	packed, err := newPack(e.Before, e.After)
	if err != nil {
		return Sealed{}, fmt.Errorf("audit: seal: %w", err)
	}
	if packed != nil {
		e.Before, e.After = nil, nil
	}
	b := body{e.Time.UTC(), e.By, e.Action, e.Subject, e.Name, e.Reason, e.Job, e.Version, e.Before, e.After,
		packed}
	text, err := json.Marshal(b)
	if err != nil {
		return Sealed{}, fmt.Errorf("audit: seal: %w", err)
	}
	entries, previous := decodeHead(head)
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

// Sealed is an entry ready to be appended to the chain with the head that it was sealed
// for.
type Sealed struct {
	Head []byte // of the chain before; empty for the first entry
	Body []byte
	Hash []byte // 32 bytes
	Next []byte // head of the chain after
	Item []byte // for the journal; empty without one
}

// Args returns the arguments of the Lua function append from its fourth on.
func (s Sealed) Args() []string {
	return []string{string(s.Head), string(s.Body), string(s.Hash), string(s.Next), string(s.Item)}
}

// headLen is the length of a head: 8 bytes number of entries, 32 bytes hash of the
// newest, and 32 bytes HMAC over both and the bucket.
const headLen = 8 + 2*sha256.Size

// head encodes the head of a chain.
func (k Key) head(b keyspace.Bucket, entries uint64, newest []byte) []byte {
	head := append(binary.BigEndian.AppendUint64(nil, entries), newest...)
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte{byte(b), 0xff}) // not the length of a hash, so no entry's hash begins so
	mac.Write(head)
	return mac.Sum(head)
}

// decodeHead decodes a head without checking its HMAC. It treats a text of another length
// as the head of a chain without entries: Verify finds it once an entry is appended.
func decodeHead(head []byte) (entries uint64, newest []byte) {
	if len(head) != headLen {
		return 0, nil
	}
	return binary.BigEndian.Uint64(head), head[8 : 8+sha256.Size]
}

// validHead reports whether the head was made with the key.
func (k Key) validHead(b keyspace.Bucket, head []byte) bool {
	entries, newest := decodeHead(head)
	return newest != nil && hmac.Equal(head, k.head(b, entries, newest))
}

// Position decodes a head: the number of entries and the hash of the newest. It reports
// false if the head was not made with the key.
func (k Key) Position(b keyspace.Bucket, head []byte) (entries uint64, newest []byte, ok bool) {
	if len(head) == 0 {
		return 0, nil, true
	}
	entries, newest = decodeHead(head)
	return entries, newest, k.validHead(b, head)
}

// Change is the change of a record that an entry is about.
type Change struct {
	Key    string // in Valkey
	Field  string // of the hash under Key; empty if the record is a string
	Record []byte // nil if it was deleted
}

// Item is an entry as the journal stores it, with the change that it is about.
type Item struct {
	Bucket   keyspace.Bucket
	Number   uint64 // place of the entry in its chain, from 1
	ID       string // id of the entry in its stream
	Previous []byte // hash of the entry before; empty for the first
	Hash     []byte
	Body     []byte  // the entry as it is hashed
	Change   *Change // nil if the entry changed no record, such as a log-in
}

// itemText is an Item in JSON. A line with the stream id precedes it, because Valkey
// chooses the id when the entry is appended.
type itemText struct {
	Bucket   keyspace.Bucket `json:"bucket"`
	Number   uint64          `json:"number"`
	Previous []byte          `json:"previous,omitempty"`
	Hash     []byte          `json:"hash"`
	Body     json.RawMessage `json:"entry"`
	Key      string          `json:"key,omitempty"`
	Field    string          `json:"field,omitempty"`
	Record   []byte          `json:"record,omitempty"`
	MAC      []byte          `json:"mac"`
}

// ErrItem means that an item of the journal was damaged, altered or moved, or was sealed
// with the key of another pepper.
var ErrItem = errors.New("the journal holds an item that was altered or sealed with another KEY_PEPPER")

// item encodes what the journal stores of a sealed entry, without its id.
func (k Key) item(b keyspace.Bucket, s Sealed, c *Change) ([]byte, error) {
	entries, previous := decodeHead(s.Head)
	text := itemText{Bucket: b, Number: entries + 1, Previous: previous, Hash: s.Hash, Body: s.Body}
	if c != nil {
		text.Key, text.Field, text.Record = c.Key, c.Field, c.Record
	}
	text.MAC = k.itemMAC(text)
	item, err := json.Marshal(text)
	if err != nil {
		return nil, fmt.Errorf("audit: seal item: %w", err)
	}
	return item, nil
}

// itemMAC returns an HMAC over the bucket, number, hash and change of an item. The hash
// covers the body and the entry before.
func (k Key) itemMAC(t itemText) []byte {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte{byte(t.Bucket), 0xfe}) // neither the length of a hash nor a head's 0xff
	mac.Write(binary.BigEndian.AppendUint64(nil, t.Number))
	mac.Write(t.Hash)
	for _, name := range []string{t.Key, t.Field} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(name))))
		mac.Write([]byte(name))
	}
	mac.Write(t.Record)
	return mac.Sum(nil)
}

// OpenItem decodes what the journal stores. It fails with ErrItem unless the item was
// sealed with the key.
func (k Key) OpenItem(content []byte) (Item, error) {
	id, rest, found := bytes.Cut(content, []byte("\n"))
	var t itemText
	if err := json.Unmarshal(rest, &t); !found || err != nil {
		return Item{}, ErrItem
	}
	good := hmac.Equal(t.MAC, k.itemMAC(t)) && hmac.Equal(t.Hash, k.hash(t.Bucket, t.Previous, t.Body))
	if !good || !streamID(string(id)) {
		return Item{}, ErrItem
	}
	i := Item{
		Bucket: t.Bucket, Number: t.Number, ID: string(id), Previous: t.Previous, Hash: t.Hash, Body: t.Body,
	}
	if t.Key != "" {
		i.Change = &Change{t.Key, t.Field, t.Record}
	}
	return i, nil
}

// streamID reports whether a text is a stream id: milliseconds-sequence.
func streamID(id string) bool {
	_, err := parsePosition(id + "-0")
	return err == nil && strings.Count(id, "-") == 1
}

// Entry returns the item's entry, opened.
func (i Item) Entry() Entry {
	e := Entry{
		ID: fmt.Sprintf("%s-%d", i.ID, i.Bucket), Previous: hex.EncodeToString(i.Previous),
		Hash: hex.EncodeToString(i.Hash),
	}
	return e.withBody(i.Body).Opened()
}

// Head returns the head of the chain that ends with the item.
func (i Item) Head(k Key) []byte { return k.head(i.Bucket, i.Number, i.Hash) }
