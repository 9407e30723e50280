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
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// members is a JSON Web Key as an issuer writes it.
type members map[string]any

// shaped returns the signer's public key with changed members. A nil change removes one.
func shaped(s signer, changes members) members {
	var m members
	if err := json.Unmarshal(must(json.Marshal(s.jwk())), &m); err != nil {
		panic(err)
	}
	maps.Copy(m, changes)
	maps.DeleteFunc(m, func(_ string, value any) bool { return value == nil })
	return m
}

// signEd25519 signs as RFC 9864 names the algorithm.
func signEd25519(id string, key ed25519.PrivateKey) string {
	header := fmt.Sprintf(`{"alg":"Ed25519","kid":%q}`, id)
	unsigned := strings.TrimSuffix(forge(header, validPayload, nil), ".")
	return forge(header, validPayload, ed25519.Sign(key, []byte(unsigned)))
}

// anonymous signs without a key id.
func anonymous(algorithm jose.SignatureAlgorithm, key crypto.Signer) signer {
	return signer{"", algorithm, key}
}

// negativeSerial is a certificate whose serial number is negative, which Go refuses: the
// beginning of its encoding is enough.
var negativeSerial = base64.StdEncoding.EncodeToString([]byte{0x30, 0x0b, 0x30, 0x09, 0xa0, 3, 2, 1, 2,
	2, 1, 0xff, 5})

// shape is a key set as issuers publish them, and a token that must verify with it.
type shape struct {
	keys  []members
	token string
}

func shapes() map[string]shape {
	rs := signer{"rsa", jose.RS256, rsaKey()}
	ps := signer{"ps", jose.PS256, rsaKey()}
	ed := signer{"ed", jose.EdDSA, edKey()}
	next := must(rsa.GenerateKey(rand.Reader, 2048))
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	p521 := must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))
	bare := members{"kid": nil, "alg": nil, "use": nil}
	named := members{"alg": "Ed25519"}
	return map[string]shape{
		"certificate with a negative serial": {[]members{shaped(rs, members{"x5c": []string{negativeSerial},
			"x5t": "AAAA", "x5t#S256": "%%%", "x5u": "::"})}, rs.token(nil)},
		"certificates are no list": {[]members{shaped(rs, members{"x5c": negativeSerial})}, rs.token(nil)},
		"odd thumbprint": {[]members{shaped(rs, members{"x5t": strings.Repeat("zz", 20)})},
			rs.token(nil)},
		"RSA keys without alg (Entra)": {[]members{shaped(rs, members{"alg": nil,
			"issuer": "https://login.example/{tenantid}/v2.0", "x5c": []string{negativeSerial}})},
			signer{"rsa", jose.RS512, rsaKey()}.token(nil)},
		"a key for encryption beside (Keycloak)": {[]members{
			shaped(rs, members{"kid": "enc", "use": "enc", "alg": "RSA-OAEP"}), shaped(rs, nil)},
			rs.token(nil)},
		"two keys in rotation, no aud (Cognito)": {[]members{
			shaped(rs, nil), shaped(signer{"next", jose.RS256, next}, nil)},
			signer{"next", jose.RS256, next}.token(map[string]any{"aud": nil, "client_id": audience})},
		"no kid anywhere, the newer key": {[]members{shaped(rs, bare),
			shaped(signer{"", jose.RS256, next}, bare)}, anonymous(jose.RS256, next).token(nil)},
		"kid is a number": {[]members{shaped(rs, members{"kid": 1}), shaped(signer{"", jose.RS256, next},
			members{"kid": 2})}, signer{"2", jose.RS256, next}.token(nil)},
		"71 keys": {append(slices.Repeat([]members{shaped(signer{"old", jose.RS256, next}, nil)}, 70),
			shaped(rs, nil)), rs.token(nil)},
		"a token of 9 KB": {[]members{shaped(rs, nil)},
			rs.token(map[string]any{"groups": strings.Repeat("g", 6<<10)})},
		"no kid in the set": {[]members{shaped(rs, members{"kid": nil})}, rs.token(nil)},
		"no kid in the token": {[]members{shaped(rs, nil), shaped(signer{"next", jose.RS256, next}, nil)},
			anonymous(jose.RS256, next).token(nil)},
		"one kid for two keys": {[]members{shaped(rs, nil), shaped(signer{"rsa", jose.RS256, next}, nil)},
			signer{"rsa", jose.RS256, next}.token(nil)},
		"one kid for two kinds": {[]members{shaped(rs, members{"kid": "1"}), shaped(ed, members{"kid": "1"})},
			signer{"1", jose.EdDSA, edKey()}.token(nil)},
		"PS256 (FAPI)": {[]members{shaped(ps, nil)}, ps.token(nil)},
		"P-384, key_ops": {[]members{shaped(signer{"a", jose.ES384, p384},
			members{"key_ops": []string{"verify"}})}, signer{"a", jose.ES384, p384}.token(nil)},
		"P-521, no alg": {[]members{shaped(signer{"a", jose.ES512, p521}, bare)},
			anonymous(jose.ES512, p521).token(nil)},
		"Ed25519 by name":               {[]members{shaped(ed, named)}, signEd25519("ed", edKey())},
		"Ed25519 for a key named EdDSA": {[]members{shaped(ed, nil)}, signEd25519("ed", edKey())},
		"EdDSA for a key named Ed25519": {[]members{shaped(ed, named)}, ed.token(nil)},
		"Ed25519 for a key without alg": {[]members{shaped(ed, members{"alg": nil})},
			signEd25519("ed", edKey())},
		"members that nobody reads": {[]members{shaped(rs, members{"exp": 1, "x": []int{1},
			"oth": "x"})}, rs.token(nil)},
		"keys of other kinds beside": {[]members{{"kty": "oct", "k": "AAAA"}, {"kty": "OKP", "crv": "X25519"},
			{"kty": "EC", "crv": "secp256k1", "x": "AAAA", "y": "AAAA", "kid": "rsa"},
			{"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA"}, {}, shaped(rs, nil)}, rs.token(nil)},
	}
}

// Key sets as issuers publish them verify their tokens, from the configuration and from a
// URL.
func TestKeySetShapes(t *testing.T) {
	for name, shape := range shapes() {
		text := must(json.Marshal(map[string]any{"keys": shape.keys}))
		set, err := ParseKeys(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p := newProvider(t)
		p.serve(text)
		for where, v := range map[string]*Verifier{"keys": newVerifier(t, Issuer{Keys: set}),
			"URL": p.verifier(t, newClock())} {
			if got, err := v.Verify(t.Context(), shape.token); err != nil || got.Subject != "ada" {
				t.Errorf("%s, %s: got %+v, %v, want ada", name, where, got, err)
			}
		}
	}
}

// A token of every algorithm is valid, unless the issuer is limited to others.
func TestAlgorithms(t *testing.T) {
	set := must(ParseKeys(keySetOf(everyAlgorithm()...)))
	all := newVerifier(t, Issuer{Keys: set})
	for _, s := range everyAlgorithm() {
		if _, err := all.Verify(t.Context(), s.token(nil)); err != nil {
			t.Errorf("%s: %v", s.algorithm, err)
		}
		others := slices.DeleteFunc(Algorithms(),
			func(name string) bool { return name == string(s.algorithm) })
		limited := newVerifier(t, Issuer{Keys: set, Algorithms: others})
		checkRefused(t, limited, map[string]string{string(s.algorithm): s.token(nil)})
	}
}

// At most 8 keys are tried for a token without a key id.
func TestKeysTriedAreBounded(t *testing.T) {
	ed := func(i int) signer {
		return signer{fmt.Sprint(i), jose.EdDSA, ed25519.NewKeyFromSeed([]byte(fmt.Sprintf("%032d", i)))}
	}
	var all []signer
	for i := range maxTried + 1 {
		all = append(all, ed(i))
	}
	v := newVerifier(t, Issuer{Keys: must(ParseKeys(keySetOf(all...)))})
	for i, s := range all {
		_, err := v.Verify(t.Context(), anonymous(s.algorithm, s.key).token(nil))
		if (err == nil) != (i < maxTried) {
			t.Errorf("key %d: got error %v", i+1, err)
		}
	}
}

// A key without kid that is added to a set is found within a minute, as one with kid is.
func TestRotationWithoutKeyIDs(t *testing.T) {
	first, second := anonymous(jose.ES256, ecKey()), anonymous(jose.EdDSA, edKey())
	third := anonymous(jose.EdDSA, ed25519.NewKeyFromSeed([]byte(strings.Repeat("t", 32))))
	p, at := newProvider(t, first, second), newClock()
	v := p.verifier(t, at)
	p.checkVerify(t, v, second.token(nil), nil, 1)
	p.serve(keySetOf(second, third))
	p.checkVerify(t, v, third.token(nil), ErrInvalid, 1)
	at.advance(fetchEvery)
	p.checkVerify(t, v, third.token(nil), nil, 2)
}

// A set without a usable key says of each key why it is left out, without secrets.
func TestNoUsableKeySaysWhy(t *testing.T) {
	short := signer{"short", jose.RS256, must(rsa.GenerateKey(rand.Reader, 1024))}
	private := shaped(signers()[2], members{"kid": "own", "d": "secret-part"})
	_, err := ParseKeys(must(json.Marshal(map[string]any{"keys": []any{shaped(short, nil), private,
		members{"kty": "oct", "kid": "hs", "k": "secret-part"}, shaped(signers()[0], members{"use": "enc"}),
		shaped(signers()[0], members{"alg": "RSA-OAEP"}), members{"kty": "EC", "crv": "secp256k1"}, 7}})))
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{`no usable key among 7`,
		`key 1 "short" has 1024 bits: must have 2048 to 8192`,
		`key 2 "own" is a private key`, `key 3 "hs" is symmetric`, `key 4 "rsa" has use "enc"`,
		`key 5 "rsa" has alg "RSA-OAEP"`, `key 6 "" has kty "EC" and crv "secp256k1"`,
		`key 7 "" is not a JSON Web Key`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if strings.Contains(err.Error(), "secret-part") {
		t.Errorf("the error has a secret: %v", err)
	}
}

// Each refusal names the claim or the key, and no part of the token.
func TestRefusalsNameTheirCause(t *testing.T) {
	s := signers()[2]
	v := newVerifier(t, Issuer{IdentityClaim: "email", PlanClaim: "tier", Algorithms: []string{"EdDSA"}})
	token := func(changes map[string]any) string {
		all := map[string]any{"email": "ada@example.com"}
		maps.Copy(all, changes)
		return s.token(all)
	}
	forged := signer{"ed", jose.EdDSA, ed25519.NewKeyFromSeed([]byte(strings.Repeat("f", 32)))}
	for want, text := range map[string]string{
		"claim aud has none of the configured":    token(map[string]any{"aud": "else"}),
		"claim client_id has none of":             token(map[string]any{"aud": nil, "client_id": "else"}),
		"claim aud is missing":                    token(map[string]any{"aud": nil}),
		"claim azp has none of":                   token(map[string]any{"aud": nil, "azp": "else"}),
		"claim iss names no issuer":               token(map[string]any{"iss": "https://else.example/"}),
		"claim iss is missing":                    token(map[string]any{"iss": nil}),
		"claim exp is in the past":                token(map[string]any{"exp": start.Unix() - 1}),
		"claim exp is missing":                    token(map[string]any{"exp": nil}),
		"claim nbf is in the future":              token(map[string]any{"nbf": start.Unix() + 1}),
		"claim iat is not a number":               token(map[string]any{"iat": "now"}),
		`identifies the caller, is true or false`: token(map[string]any{"email": true}),
		`identifies the caller, is missing`:       s.token(nil),
		`names the plan, is a list of 2`:          token(map[string]any{"tier": []string{"a", "b"}}),
		`names the plan, is a number`:             token(map[string]any{"tier": 7}),
		"alg RS256 is not among the issuer's":     signers()[0].token(nil),
		"alg is none of RS256, RS384":             forge(`{"alg":"none"}`, validPayload, nil),
		"no key with this kid for this alg":       signer{"unknown", s.algorithm, s.key}.token(nil),
		"signature does not fit the issuer's key": forged.token(nil),
		"not a signed JSON Web Token":             "x.y.z",
	} {
		_, err := v.Verify(t.Context(), text)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) || leaks(err.Error(), text) {
			t.Errorf("got %v, want ErrInvalid with %q", err, want)
		}
	}
}

// A claim that the configuration does not name has any type.
func TestOtherClaimsHaveAnyType(t *testing.T) {
	v := newVerifier(t, Issuer{IdentityClaim: "email"})
	got, err := v.Verify(t.Context(), signers()[2].token(map[string]any{"email": "ada@example.com", "sub": 7,
		"jti": 9, "client_id": []int{1}, "azp": true}))
	if err != nil || got.Subject != "ada@example.com" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// The name of a claim is one member, dots included, or else a path through objects.
func TestNestedClaims(t *testing.T) {
	const namespaced = "https://example.com/claims.plan"
	access := map[string]any{"realm_access": map[string]any{"roles": []string{"gold"}},
		"resource_access": map[string]any{"my.client": map[string]any{"roles": []string{"gold"}}},
		namespaced:        "gold", "a.b": "gold", "a": map[string]any{"b": "silver", "c": "gold"}}
	for name, found := range map[string]bool{
		"realm_access.roles": true, "resource_access.my.client.roles": true, namespaced: true, "a.b": true,
		"a.c": true, "a.d": false, "a.": false, ".a": false, "a.b.c": false, "realm_access..roles": false,
		"realm_access.roles.0": false, "resource_access.my": false,
	} {
		plans := map[string]string{"gold": "pro"}
		v := newVerifier(t, Issuer{PlanClaim: name, Plans: plans})
		got, err := v.Verify(t.Context(), signers()[2].token(access))
		if (got.Plan == "pro") != found || err != nil {
			t.Errorf("%s: got %+v, %v, want a plan: %t", name, got, err, found)
		}
	}
	v := newVerifier(t, Issuer{IdentityClaim: "act.sub"})
	got, err := v.Verify(t.Context(), signers()[2].token(map[string]any{"act": map[string]any{"sub": "bob"}}))
	if err != nil || got.Subject != "bob" {
		t.Errorf("got %+v, %v, want the nested claim", got, err)
	}
	checkRefused(t, v, map[string]string{
		"no object": signers()[2].token(map[string]any{"act": "bob"}), "none": signers()[2].token(nil),
		"an object": signers()[2].token(map[string]any{"act": map[string]any{"sub": map[string]any{}}})})
}

// The first group of a list that has a plan names it. Without any, there is no plan.
func TestPlanOfGroups(t *testing.T) {
	v := newVerifier(t, Issuer{PlanClaim: "cognito:groups",
		Plans: map[string]string{"gold": "pro", "staff": "internal"}})
	for name, c := range map[string]struct {
		groups any
		plan   string
		valid  bool
	}{
		"keys of an object": {map[string]any{"zoo": 1, "gold": map[string]any{}, "eu": nil}, "pro", true},
		"words of a text":   {"eu gold staff", "pro", true},
		"list":              {[]string{"eu", "gold", "staff"}, "pro", true}, "text": {"staff", "internal",
			true},
		"none mapped": {[]string{"eu"}, "", true}, "empty list": {[]string{}, "", true},
		"none given": {nil, "", true}, "a plan's own name": {"pro", "", true},
		"number": {7, "", false}, "list of numbers": {[]int{7}, "", false},
	} {
		got, err := v.Verify(t.Context(), signers()[2].token(map[string]any{"cognito:groups": c.groups}))
		if (err == nil) != c.valid || got.Plan != c.plan {
			t.Errorf("%s: got %+v, %v, want plan %q, valid %t", name, got, err, c.plan, c.valid)
		}
	}
}

// A token without a plan says why the claim names none.
func TestWhyNoPlan(t *testing.T) {
	for want, c := range map[string]struct {
		plans map[string]string
		tier  any
	}{
		`claim "tier" is missing`: {nil, nil},
		`claim "tier" is a list of 3, and none of its groups`: {map[string]string{"Gold": "pro"},
			[]string{"gold", "eu", "x"}},
		`claim "tier" is an object, and none`: {map[string]string{"a": "pro"}, map[string]any{"b": 1}},
	} {
		v := newVerifier(t, Issuer{PlanClaim: "tier", Plans: c.plans})
		got, err := v.Verify(t.Context(), signers()[2].token(map[string]any{"tier": c.tier}))
		if err != nil || got.Plan != "" || !strings.Contains(got.NoPlan, want) {
			t.Errorf("got %+v, %v, want no plan for %q", got, err, want)
		}
	}
}

// Required claims have exactly their texts: of an ID token and an access token one passes.
func TestRequiredClaims(t *testing.T) {
	v := newVerifier(t, Issuer{RequiredClaims: map[string]string{"token_use": "access", "org.id": "acme"}})
	token := func(use, org any) string {
		return signers()[2].token(map[string]any{"token_use": use, "org": map[string]any{"id": org}})
	}
	if _, err := v.Verify(t.Context(), token("access", "acme")); err != nil {
		t.Error(err)
	}
	checkRefused(t, v, map[string]string{"ID token": token("id", "acme"), "none": token(nil, "acme"),
		"list": token([]string{"access"}, "acme"), "another": token("access", "else"),
		"capitals": token("Access", "acme")})
}

// Each issuer has its own keys, audiences and claims: one's key signs nothing for another.
func TestSeveralIssuers(t *testing.T) {
	rs, ed := signers()[0], signers()[2]
	second := Issuer{Name: "https://second.example", IdentityClaim: "client",
		Audiences: []string{"billing"}, Keys: must(ParseKeys(keySetOf(ed)))}
	v := newVerifierWith(t, Issuer{Keys: must(ParseKeys(keySetOf(rs)))}, Config{Issuers: []Issuer{second}})
	theirs := map[string]any{"iss": second.Name, "aud": "billing", "client": "acme"}
	for token, want := range map[string]Claims{rs.token(nil): {Issuer: issuer, Subject: "ada",
		Scopes: []string{}},
		ed.token(theirs): {Issuer: second.Name, Subject: "acme", Scopes: []string{}}} {
		if got, err := v.Verify(t.Context(), token); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	checkRefused(t, v, map[string]string{
		"key of the second": ed.token(nil), "key of the first": rs.token(theirs),
		"audience of the first": ed.token(map[string]any{"iss": second.Name, "client": "acme"})})
}

// A template admits the listed tenants, and each is an issuer of its own.
func TestTenants(t *testing.T) {
	s := signers()[0]
	v := newVerifier(t, Issuer{Name: "https://login.example/{tenantid}/v2.0", Tenants: []string{"t1", "t2"}})
	for _, tenant := range []string{"t1", "t2"} {
		name := "https://login.example/" + tenant + "/v2.0"
		got, err := v.Verify(t.Context(), s.token(map[string]any{"iss": name}))
		if err != nil || got.Issuer != name {
			t.Errorf("%s: got %+v, %v", tenant, got, err)
		}
	}
	tokens := map[string]string{}
	for _, tenant := range []string{"t3", "{tenantid}", "", "t1/v2.0/../t3", "T1"} {
		tokens[tenant] = s.token(map[string]any{"iss": "https://login.example/" + tenant + "/v2.0"})
	}
	checkRefused(t, v, tokens)
}

// Sets of several issuers are each fetched at most once a minute, whatever issuers and
// keys tokens name.
func TestFloodAtSeveralIssuers(t *testing.T) {
	s, at := signers()[2], newClock()
	first, second := newProvider(t, s), newProvider(t, s)
	other := second.withURL()
	other.Name, other.Audiences = "https://second.example", []string{audience}
	v := newVerifierWith(t, first.withURL(),
		Config{Client: first.client, Now: at.now, Issuers: []Issuer{other}})
	for i := range 50 {
		unknown := signer{fmt.Sprint(i), s.algorithm, s.key}
		for _, name := range []string{issuer, other.Name, fmt.Sprint("https://evil.example/", i)} {
			if _, err := v.Verify(t.Context(), unknown.token(map[string]any{"iss": name})); err == nil {
				t.Errorf("%s: got no error", name)
			}
		}
	}
	if a, b := first.fetches.Load(), second.fetches.Load(); a != 1 || b > 1 {
		t.Errorf("got %d and %d fetches, want 1 of each at most", a, b)
	}
}

// A whole number or a list of one name names a caller too, unless two could look the same.
func TestNames(t *testing.T) {
	v := newVerifier(t, Issuer{IdentityClaim: "id"})
	for name, c := range map[string]struct {
		id   any
		want string
	}{
		"number": {42, "42"}, "long number": {int64(9007199254740991), "9007199254740991"},
		"negative": {-7, "-7"}, "list of one": {[]string{"ada"}, "ada"}, "list of a number": {[]int{42},
			"42"},
		"too long a number": {int64(9007199254740993), ""}, "fraction": {1.5, ""}, "empty": {"", ""},
		"list of two": {[]string{"ada", "bob"}, ""}, "list of none": {[]string{}, ""},
		"list in a list": {[][]string{{"ada"}}, ""}, "true": {true, ""},
	} {
		got, err := v.Verify(t.Context(), signers()[2].token(map[string]any{"id": c.id}))
		if got.Subject != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: got %+v, %v, want %q", name, got, err, c.want)
		}
	}
}

// Claims for backends are texts, numbers and booleans, or JSON.
func TestContextClaims(t *testing.T) {
	v := newVerifierWith(t, Issuer{}, Config{ContextClaims: []string{"email", "cognito:groups", "age",
		"org.id",
		"admin", "missing", "long", "none"}})
	got, err := v.Verify(t.Context(), signers()[2].token(map[string]any{"email": "ada@example.com",
		"cognito:groups": []string{"a", "b"}, "age": 36, "org": map[string]any{"id": "acme"}, "admin": true,
		"long": strings.Repeat("x", MaxContextValue+1), "none": nil}))
	want := map[string]any{"claim_email": "ada@example.com", "claim_cognito_groups": `["a","b"]`,
		"claim_age": 36.0, "claim_org_id": "acme", "claim_admin": true}
	if err != nil || !reflect.DeepEqual(got.Context, want) {
		t.Errorf("got %v, %v, want %v", got.Context, err, want)
	}
}

// What operators take for a key set is named, with what to set instead.
func TestInsteadOfKeys(t *testing.T) {
	for text, want := range map[string]string{
		`{"issuer":"https://i.example","jwks_uri":"https://i.example/keys"}`: `jwks_uri, "https://i.example/keys"`,
		`{"kid1":"-----BEGIN CERTIFICATE-----\nMIIB\n"}`:                     "certificates or keys in PEM",
		"-----BEGIN PUBLIC KEY-----\nMIIB":                                   "certificates or keys in PEM",
		`{"jwks_uri":7}`:                                                     "discovery document",
		`{"a":"b"}`:                                                          "no usable key among 0",
	} {
		if _, err := ParseKeys([]byte(text)); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "MIIB") {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// Scopes are the words of scope, or of scp, a text or a list.
func TestScopes(t *testing.T) {
	v := newVerifier(t, Issuer{})
	for name, c := range map[string]struct {
		claims map[string]any
		want   []string
	}{
		"words":     {map[string]any{"scope": "a:read  b"}, []string{"a:read", "b"}},
		"scp, list": {map[string]any{"scp": []string{"a", "b c"}}, []string{"a", "b", "c"}},
		"scp, text": {map[string]any{"scp": "a b"}, []string{"a", "b"}},
		"both":      {map[string]any{"scope": "a", "scp": "b"}, []string{"a"}}, "none": {nil, []string{}},
		"no text": {map[string]any{"scope": 7}, []string{}},
	} {
		got, err := v.Verify(t.Context(), signers()[2].token(c.claims))
		if err != nil || !reflect.DeepEqual(got.Scopes, c.want) {
			t.Errorf("%s: got %q, %v, want %q", name, got.Scopes, err, c.want)
		}
	}
}
