package policyset

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/netip"

	"tidegate/internal/apikey"
)

// AddressKey is the key of the HMACs that make the subject ids of addresses. Without it,
// nobody who sees an id in Valkey can find the address by trying all.
type AddressKey []byte

// NewAddressKey derives the key from the pepper.
func NewAddressKey(pepper apikey.Pepper) AddressKey { return pepper.Derive("addresses") }

// ID returns the subject id of a client network.
func (k AddressKey) ID(p netip.Prefix) string {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(p.Masked().String()))
	return "ip-" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
