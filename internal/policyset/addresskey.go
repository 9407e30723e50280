package policyset

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/netip"

	"tidegate/internal/apikey"
)

// AddressKey is what the subject ids of addresses are made with: whoever sees one in
// Valkey cannot find out the address by trying all.
type AddressKey []byte

// NewAddressKey derives the key from the pepper.
func NewAddressKey(pepper apikey.Pepper) AddressKey { return pepper.Derive("addresses") }

// ID is the subject id of a client network.
func (k AddressKey) ID(p netip.Prefix) string {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(p.Masked().String()))
	return "ip-" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
