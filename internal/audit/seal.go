package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"tidegate/internal/store/keyspace"
)

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
