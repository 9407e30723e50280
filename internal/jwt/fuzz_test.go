package jwt

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// FuzzVerify: no token panics, none but those that were signed is good, and what is
// signed is good only with the claims that make it so.
func FuzzVerify(f *testing.F) {
	ed, ec := signers()[2], signers()[1]
	f.Add(ed.token(nil), []byte(goodPayload))
	f.Add(ec.token(nil), []byte(`{"iss":"`+issuer+`","aud":["x","`+audience+
		`"],"sub":"ada","exp":4e9,"plan":"pro"}`))
	f.Add(forge(`{"alg":"none"}`, goodPayload, nil), []byte(`{"exp":1e300}`))
	f.Add(forge(`{"alg":"HS256","kid":"ed"}`, goodPayload, []byte("x")), []byte(`[]`))
	for _, payload := range []string{`{}`, `{"exp":"soon"}`, `{"exp":4e9,"iss":"` + issuer + `"}`,
		`{"exp":4e9,"iss":"x","aud":"` + audience + `"}`,
		`{"exp":1,"iss":"` + issuer + `","aud":"` + audience +
			`"}`, `{"exp":4e9,"nbf":3e9,"iss":"` + issuer + `","aud":"` + audience + `"}`,
		`{"exp":4e9,"iss":"` + issuer + `","client_id":"` + audience + `","sub":7}`} {
		f.Add("a.b.c", []byte(payload))
	}
	f.Add(forge(`{"alg":"EdDSA"}`, goodPayload, []byte("x")), []byte(goodPayload))
	f.Add(forge(`{"alg":"ES256","kid":"unknown"}`, goodPayload, []byte("x")), []byte(`7`))
	v := newVerifier(f, Config{PlanClaim: "plan"})
	f.Fuzz(func(t *testing.T, token string, payload []byte) {
		got, err := v.Verify(t.Context(), token)
		if err == nil && got != (Claims{Issuer: issuer, Subject: "ada"}) || err != nil &&
			!errors.Is(err, ErrInvalid) {
			t.Fatalf("%q: %+v, %v", token, got, err)
		}
		got, err = v.Verify(t.Context(), ed.sign(payload))
		if err != nil {
			return
		}
		var claims map[string]any
		if err := json.Unmarshal(payload, &claims); err != nil {
			t.Fatalf("%q: %v", payload, err)
		}
		plan, _ := claims["plan"].(string)
		expiry, _ := claims["exp"].(float64)
		_, audienceGiven := claims["aud"]
		if got.Subject == "" || got.Subject != claims["sub"] || claims["iss"] != issuer || got.Plan != plan ||
			expiry < float64(start.Unix()) ||
			!audienceGiven && claims["client_id"] != audience {
			t.Fatalf("%q: %+v", payload, got)
		}
	})
}

// FuzzParseKeys: no text panics, and what is taken has keys that tokens can be checked
// with.
func FuzzParseKeys(f *testing.F) {
	f.Add(keySetOf(signers()[1:]...))
	f.Add(
		[]byte(
			`{"keys":[{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"},{"kty":"oct","k":"AAAA"},{"kty":"RSA","n":"AAAA","e":"AQAB"},7,null]}`))
	f.Add([]byte(`{"keys":`))
	f.Add([]byte(`{"keys":[` + strings.Repeat("{},", MaxKeys) + `{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := ParseKeys(text)
		if (err == nil) != (set.Len() > 0) {
			t.Fatalf("%q: %d keys, %v", text, set.Len(), err)
		}
		for n := range set.byName {
			if key, ok := set.lookup(n.id, n.algorithm); n.id != "" &&
				(!ok || algorithmOf(key) != n.algorithm) {
				t.Fatalf("%q: no key %v of its algorithm", text, n)
			}
		}
	})
}
