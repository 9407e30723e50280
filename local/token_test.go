//go:build unix

package main

import (
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// tokenKey signs the tokens of the issuer.
var tokenKey = ed25519.NewKeyFromSeed([]byte(strings.Repeat("v", 32)))

func keySetOf(key ed25519.PrivateKey) string {
	public := jose.JSONWebKey{KeyID: "1", Algorithm: "EdDSA", Use: "sig", Key: key.Public()}
	text, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}}) // keys always encode
	return string(text)
}

// signedToken returns a token that expires after good. Its claims name a client and a
// plan too.
func signedToken(t *testing.T, good time.Duration) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: tokenKey},
		(&jose.SignerOptions{}).WithHeader("kid", "1"))
	if err != nil {
		t.Fatal(err)
	}
	claims, _ := json.Marshal(map[string]any{ // texts and numbers always encode
		"iss": canaryIssuer, "aud": "orders", "sub": "ada", "client_id": "app",
		"tier": []string{"all", "gold"}, "exp": time.Now().Add(good).Unix(),
	})
	object, err := signer.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	text, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// tokens returns variables that accept the test's tokens, with changes.
func tokens(changes ...string) map[string]string {
	all := map[string]string{
		"IDENTITY_SOURCES": "jwt", "JWT_ISSUER": canaryIssuer, "JWT_AUDIENCE": "orders",
		"JWT_JWKS": keySetOf(tokenKey),
	}
	for i := 0; i+1 < len(changes); i += 2 {
		all[changes[i]] = changes[i+1]
	}
	return all
}
