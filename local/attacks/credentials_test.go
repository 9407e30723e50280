//go:build unix

package attacks

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
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
		i.machineToken(t, "write"))
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

// A good key does not let a forged bearer token past the authorizer.
func TestAttackKeyBesideForgedBearer(t *testing.T) {
	a, i := attack(t, "a forged JWT beside a good key",
		"a good API key with an unsigned, a foreign, an expired and a broken bearer, with the sources "+
			"key and JWT in both orders, on both APIs")
	k := issuerKeys()[2]
	_, key := i.key(t, wide)
	good := k.token(nil)
	foreign := issuerKey{"ed", issuerKeys()[1].algorithm, issuerKeys()[1].key}.token(nil)
	forged := map[string]string{
		"unsigned": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.", "foreign": foreign,
		"expired": k.token(map[string]any{"exp": 1}), "broken": good[:len(good)-4] + "AAAA",
	}
	for _, sources := range []string{"key,jwt", "jwt,key"} {
		rest, http2 := i.tokens(t, map[string]string{"IDENTITY_SOURCES": sources, "JWT_JWKS": keySet(k)})
		for api, target := range map[string]target{"REST API": rest, "HTTP API": http2} {
			for name, bearer := range forged {
				a.probe()
				got := target.get(t, "/", "x-api-key", key, "Authorization", "Bearer "+bearer)
				if got.status != http.StatusUnauthorized && got.status != http.StatusForbidden {
					t.Errorf("%s of %s, %s: %d %.300s", api, sources, name, got.status, got.body)
				}
			}
		}
	}
}

const (
	issuer   = "https://issuer.example/"
	audience = "orders"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// issuerKey is one signing key of the issuer.
type issuerKey struct {
	id        string
	algorithm jose.SignatureAlgorithm
	key       crypto.Signer
}

// issuerKeys creates the keys once, since creating an RSA key takes long.
var issuerKeys = sync.OnceValue(func() []issuerKey {
	return []issuerKey{
		{"rsa", jose.RS256, must(rsa.GenerateKey(rand.Reader, 2048))},
		{"ec", jose.ES256, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))},
		{"ed", jose.EdDSA, mustPrivate(ed25519.GenerateKey(rand.Reader))},
	}
})

func mustPrivate(_ ed25519.PublicKey, key ed25519.PrivateKey, err error) ed25519.PrivateKey {
	return must(key, err)
}

func (k issuerKey) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{KeyID: k.id, Algorithm: string(k.algorithm), Use: "sig", Key: k.key.Public()}
}

func keySet(keys ...issuerKey) string {
	var set jose.JSONWebKeySet
	for _, k := range keys {
		set.Keys = append(set.Keys, k.jwk())
	}
	return string(must(json.Marshal(set)))
}

func (k issuerKey) sign(payload string) string {
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", k.id)
	signed := must(must(jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: k.key},
		options)).Sign([]byte(payload)))
	return must(signed.CompactSerialize())
}

// token signs the good claims with changes; a change to nil removes a claim.
func (k issuerKey) token(changes map[string]any) string {
	now := time.Now()
	claims := map[string]any{"iss": issuer, "aud": audience, "sub": "ada", "exp": now.Add(time.Hour).Unix(),
		"iat": now.Unix()}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return k.sign(string(must(json.Marshal(claims))))
}

const goodClaims = `{"iss":"` + issuer + `","aud":"` + audience + `","sub":"ada","exp":4000000000}`

// forge joins a header, the good claims and a signature that the attacker chooses.
func forge(header string, signature func(signed string) []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(header)) + "." + encode([]byte(goodClaims))
	return signed + "." + encode(signature(signed))
}

// forgeries are tokens whose signature is not the issuer's for that algorithm and key.
func forgeries() map[string]string {
	all := map[string]string{}
	unsigned := func(string) []byte { return nil }
	for _, alg := range []string{"none", "None", "NONE", "nOnE", ""} {
		for _, id := range []string{"", "rsa"} {
			header := fmt.Sprintf(`{"alg":%q,"typ":"JWT","kid":%q}`, alg, id)
			all["unsigned "+header] = forge(header, unsigned)
			all["none, with a signature, "+header] = forge(header, func(string) []byte {
				return []byte("signature")
			})
		}
	}
	public := issuerKeys()[0].key.Public().(*rsa.PublicKey)
	der := must(x509.MarshalPKIXPublicKey(public))
	for name, secret := range map[string][]byte{
		"DER": der, "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
		"modulus": public.N.Bytes(),
		"JWK":     must(json.Marshal(issuerKeys()[0].jwk())), "nothing": nil,
	} {
		for _, alg := range []string{"HS256", "RS256"} {
			all[alg+" with the public key as "+name] = forge(fmt.Sprintf(`{"alg":%q,"kid":"rsa"}`, alg),
				func(signed string) []byte {
					mac := hmac.New(sha256.New, secret)
					mac.Write([]byte(signed))
					return mac.Sum(nil)
				})
		}
	}
	for _, k := range issuerKeys() {
		for _, other := range issuerKeys() {
			if k.id != other.id {
				all[string(k.algorithm)+" as "+other.id] = issuerKey{other.id, k.algorithm, k.key}.token(nil)
			}
		}
	}
	for _, alg := range []jose.SignatureAlgorithm{jose.RS384, jose.RS512, jose.PS256} {
		all[string(alg)] = issuerKey{"rsa", alg, issuerKeys()[0].key}.token(nil)
	}
	maps.Copy(all, ownKeys())
	return all
}

// ownKeys are tokens signed with the attacker's key, whose headers point to that key.
func ownKeys() map[string]string {
	own := must(rsa.GenerateKey(rand.Reader, 2048))
	sign := func(header string) string {
		return forge(header, func(signed string) []byte {
			sum := sha256.Sum256([]byte(signed))
			return must(own.Sign(rand.Reader, sum[:], crypto.SHA256))
		})
	}
	jwk := must(json.Marshal(issuerKey{"rsa", jose.RS256, own}.jwk()))
	return map[string]string{
		"jwk":              sign(`{"alg":"RS256","kid":"rsa","jwk":` + string(jwk) + `}`),
		"jku":              sign(`{"alg":"RS256","kid":"rsa","jku":"https://evil.example/keys"}`),
		"x5u":              sign(`{"alg":"RS256","kid":"rsa","x5u":"https://evil.example/cert"}`),
		"x5c":              sign(`{"alg":"RS256","kid":"rsa","x5c":["AAAA"]}`),
		"kid is a path":    sign(`{"alg":"RS256","kid":"../../dev/null"}`),
		"kid is a query":   sign(`{"alg":"RS256","kid":"rsa' OR '1'='1"}`),
		"kid is an object": sign(`{"alg":"RS256","kid":{}}`),
		"unknown crit":     sign(`{"alg":"RS256","kid":"rsa","crit":["exp"],"exp":1}`),
		"b64":              sign(`{"alg":"RS256","kid":"rsa","crit":["b64"],"b64":false}`),
	}
}

// wrongClaims are tokens that the issuer signed, but with claims that are malformed,
// expired, not yet valid or for another audience.
func wrongClaims(k issuerKey) map[string]string {
	all := map[string]string{
		"subject twice": k.sign(strings.Replace(goodClaims, `"sub"`, `"sub":"eve","sub"`, 1)),
		"expiry huge":   k.sign(strings.Replace(goodClaims, "4000000000", "1e300", 1)),
		"null":          k.sign(`null`), "text": k.sign(`"text"`), "list": k.sign(`[]`),
		"longer than any": k.token(map[string]any{"x": strings.Repeat("x", 6<<10)}),
	}
	for claim, values := range map[string][]any{
		"aud": {"else", nil, []string{"else", "Orders"}, []string{}, 7},
		"iss": {"https://evil.example/", nil, "https://issuer.example"},
		"exp": {1, nil, "4000000000"}, "nbf": {time.Now().Add(time.Hour).Unix()},
		"iat": {time.Now().Add(time.Hour).Unix()},
		"sub": {nil, "", 7},
	} {
		for _, value := range values {
			all[fmt.Sprintf("%s is %v", claim, value)] = k.token(map[string]any{claim: value})
		}
	}
	return all
}

// tokens starts a check function that accepts JWTs, with further variables.
func (i *installation) tokens(t *testing.T, env map[string]string) (rest, http target) {
	t.Helper()
	all := map[string]string{"IDENTITY_SOURCES": "jwt", "JWT_ISSUER": issuer, "JWT_AUDIENCE": audience}
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
		"`none`, public keys as HMAC secrets, keys of other algorithms, `jwk`, `jku`, `x5u`, `x5c`, "+
			"`kid`, `crit`, `b64`, claims that are missing, twice or of another type")
	rest, _ := i.tokens(t, map[string]string{"JWT_JWKS": keySet(issuerKeys()...)})
	all := forgeries()
	for _, k := range issuerKeys() {
		if got := rest.get(t, "/", "Authorization", "Bearer "+k.token(nil)); got.status != http.StatusOK {
			t.Fatalf("a good token: %d %s", got.status, got.body)
		}
	}
	maps.Copy(all, wrongClaims(issuerKeys()[2]))
	for name, token := range all {
		a.probe()
		if got := rest.get(t, "/", "Authorization", "Bearer "+token); got.status != http.StatusUnauthorized {
			t.Errorf("%s: %d, want 401", name, got.status)
		}
	}
}

// No caller is allowed with a misbehaving issuer. Unknown key ids cause at most one fetch
// a minute.
func TestAttackKeySets(t *testing.T) {
	a, i := attack(t, "key sets of JWT issuers",
		"a redirect, more than 64 kB, a set that never ends, a 500, and tokens with 2,000 unknown key "+
			"ids against the number of fetches")
	good := issuerKeys()[2]
	gone := make(chan struct{})
	t.Cleanup(func() { close(gone) })
	for name, answer := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		},
		"oversized": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, keySet(good), strings.Repeat(" ", 1<<20))
		},
		"slow": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-gone:
			}
		},
		"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	} {
		t.Run(name, func(t *testing.T) {
			a.probe()
			mux := http.NewServeMux()
			mux.HandleFunc("/keys", answer)
			mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprint(w, keySet(good))
			})
			server := httptest.NewServer(mux)
			t.Cleanup(server.CloseClientConnections)
			rest, _ := i.tokens(t, map[string]string{"JWT_JWKS_URL": server.URL + "/keys"})
			got := rest.get(t, "/", "Authorization", "Bearer "+good.token(nil))
			if got.status < 400 {
				t.Errorf("status %d, want at least 400", got.status)
			}
		})
	}
	t.Run("unknown key ids", func(t *testing.T) { a.unknownKeyIDs(t, i, good) })
}

// unknownKeyIDs counts how often the issuer is asked for its keys while 2,000 tokens name
// keys that it does not have.
func (a *attempt) unknownKeyIDs(t *testing.T, i *installation, good issuerKey) {
	t.Helper()
	var fetches atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		_, _ = fmt.Fprint(w, keySet(good))
	}))
	t.Cleanup(server.Close)
	rest, _ := i.tokens(t, map[string]string{"JWT_JWKS_URL": server.URL})
	if got := rest.get(t, "/", "Authorization", "Bearer "+good.token(nil)); got.status != http.StatusOK {
		t.Fatalf("a good token: %d %s", got.status, got.body)
	}
	before := fetches.Load()
	var threads sync.WaitGroup
	for thread := range 4 {
		threads.Go(func() {
			for n := range 500 {
				a.probe()
				bad := issuerKey{fmt.Sprintf("%d-%d", thread, n), good.algorithm, good.key}
				if got := rest.get(t, "/", "Authorization",
					"Bearer "+bad.token(nil)); got.status != http.StatusUnauthorized {
					t.Errorf("%d, want 401", got.status)
				}
			}
		})
	}
	threads.Wait()
	// One fetch a minute; a slow machine may take several minutes.
	if n := fetches.Load() - before; n > 5 {
		t.Errorf("%d fetches of the issuer's keys for 2,000 unknown keys, want at most 5", n)
	}
}
