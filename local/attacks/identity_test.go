//go:build unix

package attacks

import (
	"net/http"
	"strings"
	"testing"
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
	k := issuerKeys()[2]
	_, key := i.key(t, wide)
	_, other := i.key(t, wide)
	bad := badCredentials(key, other, k.token(nil), k.token(map[string]any{"sub": "eve"}),
		i.machine(t, "write"))
	for _, sources := range []string{"key,jwt", "jwt,key"} {
		rest, http2 := i.tokens(t, map[string]string{"IDENTITY_SOURCES": sources, "JWT_JWKS": keySet(k)})
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
