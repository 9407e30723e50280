package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"tidegate/internal/store/keyspace"
)

// A head is 8 bytes number of entries, 32 bytes hash of the newest, and 32 bytes HMAC
// over both and the bucket.
const headLen = 8 + 2*sha256.Size

// HeadKey names the head of a chain.
func HeadKey(b keyspace.Bucket) string { return b.Name("ah") }

// head makes the head of a chain.
func (k Key) head(b keyspace.Bucket, entries uint64, newest []byte) []byte {
	head := append(binary.BigEndian.AppendUint64(nil, entries), newest...)
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte{byte(b), 0xff}) // no entry's hash begins so: 0xff is no length of a hash
	mac.Write(head)
	return mac.Sum(head)
}

// openHead reads a head without checking it. What is none stands for a chain without
// entries: what is appended behind it is found then.
func openHead(head []byte) (entries uint64, newest []byte) {
	if len(head) != headLen {
		return 0, nil
	}
	return binary.BigEndian.Uint64(head), head[8 : 8+sha256.Size]
}

// vouches reports whether the head is one that was made with the key.
func (k Key) vouches(b keyspace.Bucket, head []byte) bool {
	entries, newest := openHead(head)
	return newest != nil && hmac.Equal(head, k.head(b, entries, newest))
}

// Position reads a head: how many entries the chain has, and the hash of the newest. A
// head that was not made with the key stands for no position.
func (k Key) Position(b keyspace.Bucket, head []byte) (entries uint64, newest []byte, ok bool) {
	if len(head) == 0 {
		return 0, nil, true
	}
	entries, newest = openHead(head)
	return entries, newest, k.vouches(b, head)
}
