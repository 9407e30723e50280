package oidctest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"

	"github.com/go-jose/go-jose/v4"
)

// Key signs tokens under the id of the issuer's only key.
type Key ed25519.PrivateKey

// NewKey returns the key of a seed.
func NewKey(seed byte) Key {
	return Key(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
}

// Set returns the JWKS that has the key.
func (k Key) Set() string {
	public := jose.JSONWebKey{KeyID: "1", Algorithm: string(jose.EdDSA), Use: "sig",
		Key: ed25519.PrivateKey(k).Public()}
	return string(must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})))
}

// Sign returns a token with these claims.
func (k Key) Sign(claims map[string]any) string {
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: ed25519.PrivateKey(k)},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", "1")))
	return must(must(signer.Sign(must(json.Marshal(claims)))).CompactSerialize())
}

// must panics on an error, which no key and no claims of a test cause.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
