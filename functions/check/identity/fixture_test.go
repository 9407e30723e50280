package identity

import (
	"crypto/ed25519"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"tidegate/internal/apikey"
)

const (
	issuer   = "https://issuer.example/"
	audience = "orders"
)

var (
	pepper   = apikey.Pepper(strings.Repeat("pepper!!", 4))
	subjects = apikey.NewKey(pepper)
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var signingKey = ed25519.NewKeyFromSeed([]byte(strings.Repeat("s", 32)))

func keySet() []byte {
	key := jose.JSONWebKey{KeyID: "1", Algorithm: "EdDSA", Use: "sig", Key: signingKey.Public()}
	return must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key}}))
}

// token is the issuer's for the subject, good for an hour. More claims are name, value,
// name, value.
func token(subject string, more ...any) string {
	claims := map[string]any{"iss": issuer, "aud": audience, "sub": subject, "exp": now.Add(time.Hour).Unix()}
	for i := 0; i+1 < len(more); i += 2 {
		claims[more[i].(string)] = more[i+1]
	}
	options := (&jose.SignerOptions{}).WithHeader("kid", "1")
	s := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: signingKey}, options))
	return must(must(s.Sign(must(json.Marshal(claims)))).CompactSerialize())
}

// resolver has the sources, written as in IDENTITY_SOURCES.
func resolver(t testing.TB, sources string) *Resolver {
	t.Helper()
	v := Variables{Sources: sources, IPv4Prefix: "32", IPv6Prefix: "64"}
	if strings.Contains(sources, "jwt") {
		v.Issuer, v.Audience, v.Keys, v.IdentityClaim, v.PlanClaim, v.Leeway = issuer, audience,
			string(keySet()), "sub", "plan", "30s"
	}
	c, err := v.Config()
	if err != nil {
		t.Fatal(err)
	}
	c.Pepper = pepper
	c.JWT.Now = func() time.Time { return now }
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newKey(t testing.TB) apikey.Secret {
	t.Helper()
	secret, err := apikey.Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

var source = netip.MustParseAddr("192.0.2.7")

func with(headers ...string) Request {
	r := Request{Headers: map[string][]string{}, Source: source}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Headers[headers[i]] = append(r.Headers[headers[i]], headers[i+1])
	}
	return r
}

func withToken(token string) Request { return Request{TokenOnly: true, Token: token} }

func withQuery(parameters ...string) Request {
	r := with()
	r.Query, r.Headers = with(parameters...).Headers, map[string][]string{}
	return r
}
