package jwt

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

// A token of each algorithm is valid, with keys of the configuration or from a URL. The
// URL is fetched once.
func TestValidTokens(t *testing.T) {
	remote := newProvider(t, signers()...)
	for name, v := range map[string]*Verifier{"inline": newVerifier(t, Issuer{}),
		"remote": remote.verifier(t, newClock())} {
		for _, s := range signers() {
			for _, changes := range []map[string]any{
				{}, {"aud": []string{"unknown", audience}}, {"nbf": nil, "iat": nil},
				{"aud": nil, "client_id": audience}, {"aud": nil, "azp": audience},
			} {
				got, err := v.Verify(t.Context(), s.token(changes))
				if err != nil {
					t.Fatalf("%s %s %v: %v", name, s.algorithm, changes, err)
				}
				if diff := cmp.Diff(Claims{Issuer: issuer, Subject: "ada", Scopes: []string{}},
					got); diff != "" {
					t.Error(diff)
				}
			}
		}
	}
	if n := remote.fetches.Load(); n != 1 {
		t.Errorf("got %d fetches, want 1", n)
	}
}

// checkRefused checks that Verify refuses every token with ErrInvalid, and that the error
// contains no part of the token.
func checkRefused(t *testing.T, v *Verifier, tokens map[string]string) {
	t.Helper()
	for name, token := range tokens {
		got, err := v.Verify(t.Context(), token)
		if !errors.Is(err, ErrInvalid) || !reflect.DeepEqual(got, Claims{}) {
			t.Errorf("%s: got %+v, %v; want ErrInvalid", name, got, err)
			continue
		}
		if len(err.Error()) > 200 || leaks(err.Error(), token) {
			t.Errorf("%s: the error is too long or contains parts of the token: %v", name, err)
		}
	}
}

const validPayload = `{"iss":"` + issuer + `","aud":"` + audience + `","sub":"ada","exp":4000000000}`

// An unsigned token (alg none) is refused, in every spelling.
func TestJWTNone(t *testing.T) {
	tokens := map[string]string{}
	for _, alg := range []string{"none", "None", "NONE", "nOnE", ""} {
		for _, id := range []string{"", "rsa"} {
			header := fmt.Sprintf(`{"alg":%q,"typ":"JWT","kid":%q}`, alg, id)
			tokens[header] = forge(header, validPayload, nil)
			tokens[header+" with a signature"] = forge(header, validPayload, []byte("signature"))
		}
	}
	tokens["no alg"] = forge(`{"typ":"JWT"}`, validPayload, nil)
	checkRefused(t, newVerifier(t, Issuer{}), tokens)
}

// A signature made with HMAC and a public key as its secret is refused, whatever
// algorithm the token names.
func TestJWTSymmetricSwap(t *testing.T) {
	der := must(x509.MarshalPKIXPublicKey(rsaKey().Public()))
	jwk := must(json.Marshal(signers()[0].jwk()))
	tokens := map[string]string{}
	for name, secret := range map[string][]byte{
		"DER": der, "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
		"modulus": rsaKey().N.Bytes(), "JWK": jwk, "empty": nil,
		"PKCS1": x509.MarshalPKCS1PublicKey(&rsaKey().PublicKey),
	} {
		for _, alg := range []string{"HS256", "RS256", "ES256", "EdDSA"} {
			header := fmt.Sprintf(`{"alg":%q,"kid":"rsa"}`, alg)
			signed := strings.TrimSuffix(forge(header, validPayload, nil), ".")
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(signed))
			tokens[alg+" with "+name] = forge(header, validPayload, mac.Sum(nil))
		}
	}
	checkRefused(t, newVerifier(t, Issuer{}), tokens)
}

// A key verifies only tokens of its own algorithm.
func TestJWTKeyOfAnotherAlgorithm(t *testing.T) {
	tokens := map[string]string{}
	for _, s := range signers() {
		for _, other := range signers() {
			if s.id != other.id {
				tokens[string(s.algorithm)+" as "+other.id] = signer{other.id, s.algorithm, s.key}.token(nil)
			}
		}
	}
	for _, alg := range []jose.SignatureAlgorithm{jose.RS384, jose.RS512, jose.PS256} {
		tokens[string(alg)] = signer{"rsa", alg, rsaKey()}.token(nil)
	}
	checkRefused(t, newVerifier(t, Issuer{}), tokens)
}

// A key that the token contains or refers to is never used.
func TestJWTOwnKey(t *testing.T) {
	own := must(rsa.GenerateKey(rand.Reader, 2048))
	sign := func(header string) string {
		signed := strings.TrimSuffix(forge(header, validPayload, nil), ".")
		sum := sha256.Sum256([]byte(signed))
		return forge(header, validPayload, must(own.Sign(rand.Reader, sum[:], crypto.SHA256)))
	}
	jwk := must(json.Marshal(signer{"rsa", jose.RS256, own}.jwk()))
	checkRefused(t, newVerifier(t, Issuer{}), map[string]string{
		"jwk":          sign(`{"alg":"RS256","kid":"rsa","jwk":` + string(jwk) + `}`),
		"jku":          sign(`{"alg":"RS256","kid":"rsa","jku":"https://evil.example/keys"}`),
		"x5u":          sign(`{"alg":"RS256","kid":"rsa","x5u":"https://evil.example/cert"}`),
		"kid is a URL": sign(`{"alg":"RS256","kid":"https://evil.example/keys"}`),
		"kid is long":  sign(`{"alg":"RS256","kid":"` + strings.Repeat("k", 4000) + `"}`),
		"unknown crit": sign(`{"alg":"RS256","kid":"rsa","crit":["exp"],"exp":1}`),
		"certificate": sign(`{"alg":"RS256","kid":"rsa","x5c":["` +
			base64.StdEncoding.EncodeToString(certificateOf(own)) + `"]}`),
		"jwk without kid": sign(`{"alg":"RS256","jwk":` + string(jwk) + `}`),
	})
}

// certificateOf returns a certificate of a key that the key itself has signed.
func certificateOf(key *rsa.PrivateKey) []byte {
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	return must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
}

// Members of a header that are not used do not refuse a token, whatever their form. A header
// that says two things, or asks for what is not supported, does.
func TestJWTHeaders(t *testing.T) {
	v := newVerifier(t, Issuer{})
	sign := func(header string) string {
		unsigned := strings.TrimSuffix(forge(header, validPayload, nil), ".")
		sum := sha256.Sum256([]byte(unsigned))
		return forge(header, validPayload, must(rsaKey().Sign(rand.Reader, sum[:], crypto.SHA256)))
	}
	for _, members := range []string{`"kid":"rsa"`, `"typ":7`, `"kid":null`,
		`"kid":"rsa","x5c":["MIIBnotACertificate="]`, `"kid":"rsa","x5c":7`,
		`"kid":"rsa","jwk":{"kty":"AKP","alg":"ML-DSA-44","pub":"AAAA"}`, `"kid":"rsa","jwk":"text"`,
		`"kid":"rsa","nonce":7`, `"kid":"rsa","b64":7`, `"kid":"rsa","x5t":{},"jku":7,"x5u":[]`} {
		if _, err := v.Verify(t.Context(), sign(`{"alg":"RS256",`+members+`}`)); err != nil {
			t.Errorf("%s: %v", members, err)
		}
	}
	checkRefused(t, v, map[string]string{
		"alg twice": sign(`{"alg":"RS256","alg":"none"}`), "alg in capitals": sign(`{"ALG":"RS256"}`),
		"kid twice": sign(`{"alg":"RS256","kid":"rsa","kid":"ec"}`), "no alg": sign(`{"kid":"rsa"}`),
		"alg is a list": sign(`{"alg":["RS256"]}`), "crit of b64": sign(`{"alg":"RS256","crit":["b64"],"b64":true}`),
		"empty crit": sign(`{"alg":"RS256","crit":[]}`), "list": sign(`["RS256"]`), "null": sign(`null`),
		"empty": sign(``), "two": sign(`{"alg":"RS256"}{}`),
	})
}

// Signatures of another length, or of another algorithm of the same key, are refused.
func TestJWTWrongSignatures(t *testing.T) {
	set := must(ParseKeys(keySetOf(everyAlgorithm()...)))
	v := newVerifier(t, Issuer{Keys: set})
	for _, s := range everyAlgorithm() {
		parts := strings.Split(s.token(nil), ".")
		signature := must(base64.RawURLEncoding.DecodeString(parts[2]))
		refused := map[string]string{}
		for name, changed := range map[string][]byte{"short": signature[:len(signature)-1], "empty": nil,
			"long": slices.Concat(signature, []byte{0}), "zero": make([]byte, len(signature)),
			"leading zero": append([]byte{0}, signature...), "zero between": slices.Insert(
				slices.Clone(signature), len(signature)/2, 0)} {
			refused[string(s.algorithm)+" "+name] = parts[0] + "." + parts[1] + "." +
				base64.RawURLEncoding.EncodeToString(changed)
		}
		checkRefused(t, v, refused)
	}
}

func TestJWTWrongClaims(t *testing.T) {
	for _, s := range signers() {
		checkRefused(t, newVerifier(t, Issuer{IdentityClaim: "sub", PlanClaim: "plan"}), map[string]string{
			"wrong audience":      s.token(map[string]any{"aud": "else"}),
			"no audience":         s.token(map[string]any{"aud": nil}),
			"no audience matches": s.token(map[string]any{"aud": []string{"else", "Orders"}}),
			"empty audience":      s.token(map[string]any{"aud": []string{}, "client_id": audience}),
			"azp beside aud":      s.token(map[string]any{"aud": "else", "azp": audience}),
			"azp beside client":   s.token(map[string]any{"aud": nil, "client_id": "else", "azp": audience}),
			"list as azp":         s.token(map[string]any{"aud": nil, "azp": []string{audience, "else"}}),
			"client_id and aud":   s.token(map[string]any{"aud": "else", "client_id": audience}),
			"audience null": s.sign(
				[]byte(strings.Replace(validPayload, `"`+audience+`"`, "null", 1))),
			"wrong issuer":          s.token(map[string]any{"iss": "https://evil.example/"}),
			"issuer without slash":  s.token(map[string]any{"iss": strings.TrimSuffix(issuer, "/")}),
			"no issuer":             s.token(map[string]any{"iss": nil}),
			"issuer is a list":      s.token(map[string]any{"iss": []string{issuer}}),
			"expired":               s.token(map[string]any{"exp": start.Add(-time.Second).Unix()}),
			"no expiry":             s.token(map[string]any{"exp": nil}),
			"expiry is text":        s.token(map[string]any{"exp": "4000000000"}),
			"expiry is huge":        s.sign([]byte(strings.Replace(validPayload, "4000000000", "1e300", 1))),
			"not yet valid":         s.token(map[string]any{"nbf": start.Add(time.Minute).Unix()}),
			"issued in the future":  s.token(map[string]any{"iat": start.Add(time.Minute).Unix()}),
			"no subject":            s.token(map[string]any{"sub": nil}),
			"empty subject":         s.token(map[string]any{"sub": ""}),
			"subject is a fraction": s.token(map[string]any{"sub": 7.5}),
			"plan is a list":        s.token(map[string]any{"plan": []string{"pro"}}),
			"plan is empty":         s.token(map[string]any{"plan": ""}),
			"plan is long":          s.token(map[string]any{"plan": strings.Repeat("p", 401)}),
			"duplicate subject": s.sign(
				[]byte(strings.Replace(validPayload, `"sub"`, `"sub":"eve","sub"`, 1))),
			"not an object": s.sign([]byte(`"text"`)),
			"null":          s.sign([]byte(`null`)),
			"not JSON":      s.sign([]byte(`{`)),
			"not UTF-8":     s.sign([]byte("{\"sub\":\"\xff\"}")),
		})
	}
}

func TestJWTMalformed(t *testing.T) {
	valid := signers()[2].token(nil)
	parts := strings.Split(valid, ".")
	checkRefused(t, newVerifier(t, Issuer{}), map[string]string{
		"empty": "", "dots": "..", "one part": parts[0], "two parts": parts[0] + "." + parts[1],
		"four parts": valid + ".x", "five parts": valid + ".x.x",
		"no signature": parts[0] + "." + parts[1] + ".", "no payload": parts[0] + ".." + parts[2],
		"space": " " + valid, "comma": valid + "," + valid,
		"bearer": "Bearer " + valid, "NUL": valid + "\x00", "padding": valid + "==",
		"JSON": `{"payload":"` + parts[1] + `"}`,
		"another payload": parts[0] + "." + strings.Split(signers()[2].token(map[string]any{"sub": "eve"}),
			".")[1] + "." + parts[2],
		"10 KB": strings.Repeat("a", 10<<10), "10 KB of dots": strings.Repeat(".", 10<<10),
		"dots within bounds": strings.Repeat(".", MaxTokenLen), "line end": valid + "\n.x",
		"long and signed": signers()[2].token(map[string]any{"x": strings.Repeat("x", MaxTokenLen)}),
		"bit flipped":     valid[:len(valid)-4] + string(valid[len(valid)-4]^1) + valid[len(valid)-3:],
	})
}

// The leeway extends the validity at both ends, exact to a second.
func TestLeeway(t *testing.T) {
	s, at := signers()[2], newClock()
	v := newVerifierWith(t, Issuer{Leeway: 30 * time.Second}, Config{Now: at.now})
	token := s.token(map[string]any{"nbf": start.Unix(), "exp": start.Add(time.Minute).Unix(), "iat": nil})
	for _, c := range []struct {
		after time.Duration
		valid bool
	}{{-31 * time.Second, false}, {-30 * time.Second, true}, {0, true}, {time.Minute, true},
		{90 * time.Second, true}, {91 * time.Second, false}} {
		at.set(start.Add(c.after))
		if _, err := v.Verify(t.Context(), token); (err == nil) != c.valid {
			t.Errorf("after %s: got error %v, want valid: %t", c.after, err, c.valid)
		}
	}
}

// The configuration chooses the identity claim and the plan claim. A token without the
// plan claim has no plan.
func TestConfiguredClaims(t *testing.T) {
	s := signers()[2]
	v := newVerifier(t, Issuer{IdentityClaim: "https://example.com/tenant", PlanClaim: "plan"})
	got, err := v.Verify(t.Context(),
		s.token(map[string]any{"https://example.com/tenant": "t{1}:", "plan": "pro"}))
	if diff := cmp.Diff(Claims{Issuer: issuer, Subject: "t{1}:", Plan: "pro", Scopes: []string{}},
		got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	got, err = v.Verify(t.Context(), s.token(map[string]any{"https://example.com/tenant": "t1"}))
	if err != nil || got.Plan != "" {
		t.Errorf("without a plan claim: got %+v, %v, want no plan", got, err)
	}
	checkRefused(t, v, map[string]string{"only sub": s.token(nil)})
}

func TestNewRefuses(t *testing.T) {
	keys, u := must(ParseKeys(keySetOf(signers()...))), must(ParseURL("https://issuer.example/keys"))
	valid := Issuer{Name: issuer, Audiences: []string{audience}, Keys: keys}
	for name, change := range map[string]func(*Issuer){
		"no issuer":       func(c *Issuer) { c.Name = "" },
		"no audience":     func(c *Issuer) { c.Audiences = nil },
		"no keys":         func(c *Issuer) { c.Keys = KeySet{} },
		"both keys":       func(c *Issuer) { c.KeysURL = u },
		"negative leeway": func(c *Issuer) { c.Leeway = -1 },
		"long leeway":     func(c *Issuer) { c.Leeway = MaxLeeway + 1 },
		"no tenants":      func(c *Issuer) { c.Name = "https://a.example/" + TenantMark },
		"tenants":         func(c *Issuer) { c.Tenants = []string{"a"} },
		"empty tenant":    func(c *Issuer) { c.Name, c.Tenants = TenantMark, []string{""} },
		"tenant twice":    func(c *Issuer) { c.Name, c.Tenants = TenantMark, []string{"a", "a"} },
		"HS256":           func(c *Issuer) { c.Algorithms = []string{"HS256"} },
		"none":            func(c *Issuer) { c.Algorithms = []string{"none"} },
	} {
		c := valid
		change(&c)
		if _, err := New(Config{Issuers: []Issuer{c}}); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	for name, issuers := range map[string][]Issuer{"none": nil, "twice": {valid, valid},
		"many": make([]Issuer, MaxIssuers+1)} {
		if _, err := New(Config{Issuers: issuers}); err == nil {
			t.Errorf("issuers: %s: got no error", name)
		}
	}
	if _, err := New(Config{Issuers: []Issuer{valid}}); err != nil {
		t.Errorf("valid configuration: got error %v", err)
	}
}
