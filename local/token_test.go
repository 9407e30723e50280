//go:build unix

package main

import (
	"time"

	"tidegate/internal/testing/oidctest"
)

// tokenKey signs the tokens of the issuer.
var tokenKey = oidctest.NewKey('v')

// signedToken returns a token that expires after good. Its claims name a client and a
// plan too.
func signedToken(good time.Duration) string {
	return tokenKey.Sign(map[string]any{
		"iss": canaryIssuer, "aud": "orders", "sub": "ada", "client_id": "app",
		"tier": []string{"all", "gold"}, "exp": time.Now().Add(good).Unix(),
	})
}

// tokens returns variables that accept the test's tokens, with changes.
func tokens(changes ...string) map[string]string {
	all := map[string]string{
		"IDENTITY_SOURCES": "jwt", "JWT_ISSUER": canaryIssuer, "JWT_AUDIENCE": "orders",
		"JWT_JWKS": tokenKey.Set(),
	}
	for i := 0; i+1 < len(changes); i += 2 {
		all[changes[i]] = changes[i+1]
	}
	return all
}
