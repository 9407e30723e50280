package apikey

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/netip"
)

// Key is what ids are made with: whoever sees one cannot find out the address or the
// token's subject by trying all.
type Key []byte

// NewKey derives the key from the secret that API keys are hashed with.
func NewKey(pepper Pepper) Key { return pepper.Derive("subjects") }

// String hides the key.
func (Key) String() string { return "subject key" }

// GoString hides the key.
func (Key) GoString() string { return "subject key" }

// Address returns the id of the clients whose address has this prefix.
func (k Key) Address(prefix netip.Prefix) string { return k.opaque("ip", prefix.Masked().String()) }

// Token returns the id of the caller whom an issuer calls so.
func (k Key) Token(issuer, name string) string { return k.opaque("jwt", issuer, name) }

// opaque hashes parts. Each has its length in front, so that no two lists of parts are
// the same text.
func (k Key) opaque(parts ...string) string {
	mac := hmac.New(sha256.New, k)
	var text []byte
	for _, part := range parts {
		text = append(binary.BigEndian.AppendUint64(text, uint64(len(part))), part...)
	}
	mac.Write(text)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
