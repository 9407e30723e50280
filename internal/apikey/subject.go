package apikey

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/netip"
)

// Key is the key of the HMACs that make callers' ids. Without it, nobody can find the
// address or token subject of an id by trying all of them.
type Key []byte

// NewKey derives the key from the pepper.
func NewKey(pepper Pepper) Key { return pepper.Derive("subjects") }

// String hides the key.
func (Key) String() string { return "subject key" }

// GoString hides the key.
func (Key) GoString() string { return "subject key" }

// Address returns the id of the clients whose addresses are in prefix.
func (k Key) Address(prefix netip.Prefix) string { return k.opaque("ip", prefix.Masked().String()) }

// Network returns the id under which limits on each address count the clients in prefix. It
// differs from Address, because a caller that is known by its address has limits of its own.
func (k Key) Network(prefix netip.Prefix) string {
	return "ip-" + k.opaque("network", prefix.Masked().String())
}

// Token returns the id of the caller with this name at a token issuer.
func (k Key) Token(issuer, name string) string { return k.opaque("jwt", issuer, name) }

// Value returns what stands for the value of a path parameter in Valkey.
func (k Key) Value(text string) string { return k.opaque("value", text) }

// opaque hashes parts into an id of 22 characters (128 bits). Each part is preceded by
// its length, so that different lists never give the same text.
func (k Key) opaque(parts ...string) string {
	mac := hmac.New(sha256.New, k)
	var text []byte
	for _, part := range parts {
		text = append(binary.BigEndian.AppendUint64(text, uint64(len(part))), part...)
	}
	mac.Write(text)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
