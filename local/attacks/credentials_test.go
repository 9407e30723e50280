//go:build unix

package attacks

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/oidctest"
)

// pairs are names and values of headers.
type pairs [][2]string

// badCredentials returns requests that contain a bad credential, some of them together
// with a good one.
func badCredentials(key, other, token, second, machine string) map[string]pairs {
	otherKey := key[:len(key)-1] + string('0'+(key[len(key)-1]-'0'+1)%10)
	x := func(v string) [2]string { return [2]string{"x-api-key", v} }
	b := func(v string) [2]string { return [2]string{"Authorization", v} }
	return map[string]pairs{
		"nothing": {}, "wrong checksum": {x(otherKey)}, "wrong checksum, bearer": {b("Bearer " + otherKey)},
		"unknown prefix": {x("sk_" + key[3:])}, "prefix in capitals": {b("Bearer TG_" + key[3:])},
		"whole key in capitals": {x(strings.ToUpper(key))},
		"empty key":             {x("")}, "key in braces": {x("{" + key + "}")},
		"key in quotes": {x(`"` + key + `"`)}, "cut key": {x(key[:len(key)-2])},
		"key of 9 kB": {x("tg_test_" + strings.Repeat("0", 9000))}, "two key headers": {x(key), x(key)},
		"two keys in one":        {x(key + "," + key)},
		"good key, then another": {x(key), x(other)}, "two different keys": {x(key), b("Bearer " + other)},
		"comma before": {x("," + key)}, "comma after": {x(key + ",")}, "no scheme": {b(key)},
		"two spaces":         {b("Bearer  " + key)},
		"behind a token":     {b("Bearer " + token + ",Bearer " + key)},
		"behind Basic":       {b("Basic YTpi, bearer " + key)},
		"two authorizations": {b("Bearer " + token), b("Bearer " + token)},
		"Basic and a token":  {b("Basic YTpi"), b("Bearer " + token)},
		"two tokens in one":  {b("Bearer " + token + "," + second)}, "no token": {b("Bearer")},
		"token behind a tab": {b("Bearer\t\t" + token)},
		"unsigned":           {b("Bearer eyJhbGciOiJub25lIn0.e30.")},
		"token of 9 kB":      {b("Bearer " + strings.Repeat("eyJhbGciOi", 900))},
		"admin token as key": {x(machine)}, "admin token as bearer": {b("Bearer " + machine)},
	}
}

// After a bad credential no other source is tried, whatever the form of the bad one.
func TestAttackIdentity(t *testing.T) {
	a, i := attack(t, "credentials twice, cut, joined",
		"duplicate headers, commas, other cases, two credentials that differ, machine tokens as keys, "+
			"9 kB, with the sources key and JWT in both orders, on both APIs")
	_, key := i.key(t, wide)
	_, other := i.key(t, wide)
	bad := badCredentials(key, other, signed(issuerKey, nil), signed(issuerKey, map[string]any{"sub": "eve"}),
		i.machineToken(t, "write"))
	for _, sources := range []string{"key,jwt", "jwt,key"} {
		rest, http2 := i.tokens(t, map[string]string{"IDENTITY_SOURCES": sources})
		for api, target := range map[string]target{"REST API": rest, "HTTP API": http2} {
			want := map[string]int{"REST API": http.StatusUnauthorized, "HTTP API": http.StatusForbidden}[api]
			if got := target.get(t, "/", "x-api-key", key); got.status != http.StatusOK {
				t.Fatalf("%s of %s, a good key: %d", api, sources, got.status)
			}
			for name, headers := range bad {
				a.probe()
				var flat []string
				for _, h := range headers {
					flat = append(flat, h[0], h[1])
				}
				if got := target.get(t, "/", flat...); got.status != want {
					t.Errorf("%s of %s, %s: %d, want %d", api, sources, name, got.status, want)
				}
			}
		}
	}
}

const (
	issuer   = "https://issuer.example/"
	audience = "orders"
)

// issuerKey is the issuer's key.
var issuerKey = oidctest.NewKey(1)

// signed returns a token with the good claims and the changes.
func signed(key oidctest.Key, changes map[string]any) string {
	now := time.Now()
	claims := map[string]any{"iss": issuer, "aud": audience, "sub": "ada", "exp": now.Add(time.Hour).Unix(),
		"iat": now.Unix()}
	maps.Copy(claims, changes)
	return key.Sign(claims)
}

// tokens starts a check function that accepts JWTs, with further variables.
func (i *installation) tokens(t *testing.T, env map[string]string) (rest, http target) {
	t.Helper()
	all := map[string]string{"JWT_ISSUER": issuer, "JWT_AUDIENCE": audience, "JWT_JWKS": issuerKey.Set()}
	maps.Copy(all, env)
	rest, http, err := i.apis(1, all)
	if err != nil {
		t.Fatal(err)
	}
	return rest, http
}

// A token is accepted only if the issuer signed it for this audience and it is valid now.
func TestAttackForgedTokens(t *testing.T) {
	a, i := attack(t, "forged JWTs",
		"unsigned, signed with the public key as a secret or with another key, broken, expired, of "+
			"another issuer, for another audience, alone and beside a good API key")
	rest, _ := i.tokens(t, map[string]string{"IDENTITY_SOURCES": "key,jwt"})
	good := signed(issuerKey, nil)
	if got := rest.get(t, "/", "Authorization", "Bearer "+good); got.status != http.StatusOK {
		t.Fatalf("a good token: %d %s", got.status, got.body)
	}
	_, claims, _ := strings.Cut(good[:strings.LastIndexByte(good, '.')], ".")
	encode := base64.RawURLEncoding.EncodeToString
	symmetric := encode([]byte(`{"alg":"HS256","kid":"1"}`)) + "." + claims
	mac := hmac.New(sha256.New, ed25519.PrivateKey(issuerKey).Public().(ed25519.PublicKey))
	mac.Write([]byte(symmetric))
	_, key := i.key(t, wide)
	for name, token := range map[string]string{
		"unsigned":         encode([]byte(`{"alg":"none","kid":"1"}`)) + "." + claims + ".",
		"HMAC":             symmetric + "." + encode(mac.Sum(nil)),
		"another key":      signed(oidctest.NewKey(2), nil),
		"broken":           good[:len(good)-4] + "AAAA",
		"expired":          signed(issuerKey, map[string]any{"exp": 1}),
		"another issuer":   signed(issuerKey, map[string]any{"iss": "https://evil.example/"}),
		"another audience": signed(issuerKey, map[string]any{"aud": "else"}),
	} {
		for _, header := range [][]string{nil, {"x-api-key", key}} {
			a.probe()
			got := rest.get(t, "/", append(header, "Authorization", "Bearer "+token)...)
			if got.status != http.StatusUnauthorized {
				t.Errorf("%s, beside %d: %d, want 401", name, len(header), got.status)
			}
		}
	}
}
