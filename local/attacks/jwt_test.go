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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

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

// tokens starts a check function that takes JWTs, with more variables.
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

// A token lets a caller in only if the issuer signed it for this audience and it is valid
// now.
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
