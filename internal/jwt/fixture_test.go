package jwt

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	issuer   = "https://issuer.example/"
	audience = "orders"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// The keys are made once. Those that fuzzing uses are the same in every run.
var (
	rsaKey = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	ecKey  = sync.OnceValue(func() *ecdsa.PrivateKey {
		d := big.NewInt(0).SetBytes([]byte(strings.Repeat("k", 32))).FillBytes(make([]byte, 32))
		return must(ecdsa.ParseRawPrivateKey(elliptic.P256(), d))
	})
	edKey = sync.OnceValue(func() ed25519.PrivateKey {
		return ed25519.NewKeyFromSeed([]byte(strings.Repeat("s", 32)))
	})
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// signer signs as the issuer does.
type signer struct {
	id        string
	algorithm jose.SignatureAlgorithm
	key       crypto.Signer
}

func signers() []signer {
	return []signer{{"rsa", jose.RS256, rsaKey()}, {"ec", jose.ES256, ecKey()}, {"ed", jose.EdDSA, edKey()}}
}

// everyAlgorithm has a signer for each algorithm, the name Ed25519 aside: go-jose signs
// with its older name only.
var everyAlgorithm = sync.OnceValue(func() []signer {
	all := []signer{{"ed", jose.EdDSA, edKey()}}
	for _, a := range rsaAlgorithms {
		all = append(all, signer{"rsa-" + string(a), a, rsaKey()})
	}
	for curve, a := range map[elliptic.Curve]jose.SignatureAlgorithm{elliptic.P256(): jose.ES256,
		elliptic.P384(): jose.ES384, elliptic.P521(): jose.ES512} {
		all = append(all, signer{"ec-" + string(a), a, must(ecdsa.GenerateKey(curve, rand.Reader))})
	}
	return all
})

func (s signer) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{KeyID: s.id, Algorithm: string(s.algorithm), Use: "sig", Key: s.key.Public()}
}

func (s signer) sign(payload []byte) string {
	options := (&jose.SignerOptions{}).WithType("JWT")
	if s.id != "" {
		options = options.WithHeader("kid", s.id)
	}
	signed := must(must(jose.NewSigner(jose.SigningKey{Algorithm: s.algorithm, Key: s.key},
		options)).Sign(payload))
	return must(signed.CompactSerialize())
}

// token signs valid claims with the changes. A nil change removes the claim.
func (s signer) token(changes map[string]any) string {
	claims := map[string]any{
		"iss": issuer, "aud": audience, "sub": "ada", "exp": start.Add(time.Hour).Unix(),
		"nbf": start.Add(-time.Minute).Unix(), "iat": start.Unix(),
	}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return s.sign(must(json.Marshal(claims)))
}

func keySetOf(signers ...signer) []byte {
	set := jose.JSONWebKeySet{}
	for _, s := range signers {
		set.Keys = append(set.Keys, s.jwk())
	}
	return must(json.Marshal(set))
}

// clock is a clock that tests set.
type clock struct{ atomic.Pointer[time.Time] }

func newClock() *clock {
	c := &clock{}
	c.set(start)
	return c
}

func (c *clock) set(t time.Time)         { c.Store(&t) }
func (c *clock) now() time.Time          { return *c.Load() }
func (c *clock) advance(d time.Duration) { c.set(c.now().Add(d)) }

// provider serves key sets over TLS and counts requests.
type provider struct {
	fetches atomic.Int64
	handler atomic.Pointer[http.HandlerFunc]
	client  *http.Client
	url     *url.URL
}

func newProvider(t testing.TB, signers ...signer) *provider {
	p := &provider{}
	p.serve(keySetOf(signers...))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.fetches.Add(1)
		(*p.handler.Load())(w, r)
	}))
	t.Cleanup(server.Close)
	p.client = server.Client()
	p.url = must(ParseURL(server.URL + "/keys"))
	return p
}

func (p *provider) handle(h http.HandlerFunc) { p.handler.Store(&h) }

func (p *provider) serve(set []byte) {
	p.handle(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(set) })
}

func (p *provider) fail() {
	p.handle(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
}

func (p *provider) verifier(t testing.TB, c *clock) *Verifier {
	t.Helper()
	return newVerifierWith(t, p.withURL(), Config{Client: p.client, Now: c.now})
}

// withURL is an Issuer whose keys the provider serves.
func (p *provider) withURL() Issuer { return Issuer{KeysURL: p.url} }

// newVerifier returns a verifier of one issuer; see newVerifierWith.
func newVerifier(t testing.TB, i Issuer) *Verifier {
	t.Helper()
	return newVerifierWith(t, i, Config{})
}

// newVerifierWith returns a verifier with the test's issuer and audience. Without keys it
// has those of all signers.
func newVerifierWith(t testing.TB, i Issuer, c Config) *Verifier {
	t.Helper()
	if i.KeysURL == nil && i.Keys.Len() == 0 {
		i.Keys = must(ParseKeys(keySetOf(signers()...)))
	}
	if i.Name == "" {
		i.Name = issuer
	}
	i.Audiences = []string{"other", audience}
	if c.Now == nil {
		c.Now = newClock().now
	}
	c.Issuers = append(c.Issuers, i)
	v, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// forge returns the token with these parts, which need not fit together.
func forge(header, payload string, signature []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	return strings.Join([]string{encode([]byte(header)), encode([]byte(payload)), encode(signature)}, ".")
}

// leaks reports whether a text contains the beginning of a part of the token. Parts under
// 8 characters do not count.
func leaks(text, token string) bool {
	return slices.ContainsFunc(strings.Split(token, "."), func(part string) bool {
		return len(part) >= 8 && strings.Contains(text, part[:8])
	})
}
