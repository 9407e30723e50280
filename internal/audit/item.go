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

// Change is what an entry leaves in Valkey: a record under a key, or its absence.
type Change struct {
	Key    string // in Valkey
	Field  string // of the hash under Key; empty when the record is a string
	Record []byte // nil when it was deleted
}

// Item is an entry as the journal stores it, with what is needed to make the change
// again.
type Item struct {
	Bucket   keyspace.Bucket
	Number   uint64 // place of the entry in its chain, from 1
	ID       string // id of the entry in its stream
	Previous []byte // hash of the entry before; empty for the first
	Hash     []byte
	Body     []byte  // the entry as it is hashed
	Change   *Change // nil when the entry changed no record, such as a log-in
}

// itemText is an Item in JSON. A line with the id of the entry stands before it, which
// only Valkey knows when the entry is appended.
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

// item is what the journal stores of a sealed entry, but for its id.
func (k Key) item(b keyspace.Bucket, s Sealed, c *Change) ([]byte, error) {
	entries, previous := openHead(s.Head)
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

// itemMAC covers the change, and through the hash the body and the entry before.
func (k Key) itemMAC(t itemText) []byte {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte{byte(t.Bucket), 0xfe}) // 0xfe is no length of a hash and no head's mark
	mac.Write(binary.BigEndian.AppendUint64(nil, t.Number))
	mac.Write(t.Hash)
	for _, name := range []string{t.Key, t.Field} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(name))))
		mac.Write([]byte(name))
	}
	mac.Write(t.Record)
	return mac.Sum(nil)
}

// OpenItem reads what the journal stores and checks that it was sealed with the key. It
// fails with ErrItem.
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

func streamID(id string) bool {
	_, err := parsePosition(id + "-0")
	return err == nil && strings.Count(id, "-") == 1
}

// Entry is the entry of the item, opened.
func (i Item) Entry() Entry {
	e := Entry{
		ID: fmt.Sprintf("%s-%d", i.ID, i.Bucket), Previous: hex.EncodeToString(i.Previous),
		Hash: hex.EncodeToString(i.Hash),
	}
	return e.decoded(i.Body).Opened()
}

// Head is the head of the chain that ends with the item.
func (i Item) Head(k Key) []byte { return k.head(i.Bucket, i.Number, i.Hash) }
