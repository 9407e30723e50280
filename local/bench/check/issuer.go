//go:build unix

package check

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	issuerName = "https://issuer.example"
	audience   = "https://api.example"
)

// issuer signs tokens, and serves the key that verifies them.
type issuer struct {
	*httptest.Server
	signer jose.Signer
}

func newIssuer() (*issuer, error) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: "1", Algorithm: string(jose.RS256), Use: "sig"}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, nil)
	if err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})
	if err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(set)
	}))
	return &issuer{server, signer}, nil
}

// env returns the environment variables of an authorizer that accepts the issuer's
// tokens.
func (i *issuer) env() map[string]string {
	return map[string]string{"IDENTITY_SOURCES": "jwt", "JWT_ISSUER": issuerName, "JWT_AUDIENCE": audience,
		"JWT_JWKS_URL": i.URL + "/jwks.json"}
}

// events returns one call for each caller, with its token.
func (i *issuer) events(callers int) ([][]byte, error) {
	var all [][]byte
	for n := range callers {
		now := time.Now()
		token, err := jwt.Signed(i.signer).Claims(jwt.Claims{
			Issuer: issuerName, Audience: jwt.Audience{audience}, Subject: fmt.Sprint("caller-", n),
			IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(time.Hour)),
		}).Serialize()
		if err != nil {
			return nil, fmt.Errorf("issuer: %w", err)
		}
		all = append(all, eventOf("authorization", "Bearer "+token))
	}
	return all, nil
}
