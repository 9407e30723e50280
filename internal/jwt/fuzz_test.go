package jwt

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// FuzzVerify checks that Verify never panics, accepts only signed tokens, and accepts a
// signed token only with valid claims.
func FuzzVerify(f *testing.F) {
	ed, ec := signers()[2], signers()[1]
	f.Add(ed.token(nil), []byte(validPayload))
	f.Add(ec.token(nil), []byte(`{"iss":"`+issuer+`","aud":["x","`+audience+
		`"],"sub":"ada","exp":4e9,"plan":"pro"}`))
	f.Add(forge(`{"alg":"none"}`, validPayload, nil), []byte(`{"exp":1e300}`))
	f.Add(forge(`{"alg":"HS256","kid":"ed"}`, validPayload, []byte("x")), []byte(`[]`))
	for _, payload := range []string{`{}`, `{"exp":"soon"}`, `{"exp":4e9,"iss":"` + issuer + `"}`,
		`{"exp":4e9,"iss":"x","aud":"` + audience + `"}`,
		`{"exp":1,"iss":"` + issuer + `","aud":"` + audience +
			`"}`, `{"exp":4e9,"nbf":3e9,"iss":"` + issuer + `","aud":"` + audience + `"}`,
		`{"exp":4e9,"iss":"` + issuer + `","client_id":"` + audience + `","sub":7}`} {
		f.Add("a.b.c", []byte(payload))
	}
	f.Add(forge(`{"alg":"EdDSA"}`, validPayload, []byte("x")), []byte(validPayload))
	f.Add(forge(`{"alg":"ES256","kid":"unknown"}`, validPayload, []byte("x")), []byte(`7`))
	v := newVerifier(f, Issuer{PlanClaim: "plan"})
	f.Fuzz(func(t *testing.T, token string, payload []byte) {
		got, err := v.Verify(t.Context(), token)
		got.NoPlan = ""
		if err == nil &&
			!reflect.DeepEqual(got, Claims{Issuer: issuer, Subject: "ada", Scopes: []string{}}) ||
			err != nil &&
				!errors.Is(err, ErrInvalid) {
			t.Fatalf("%q: got %+v, %v, want valid claims or ErrInvalid", token, got, err)
		}
		got, err = v.Verify(t.Context(), ed.sign(payload))
		if err != nil {
			return
		}
		var claims map[string]any
		if err := json.Unmarshal(payload, &claims); err != nil {
			t.Fatalf("%q: accepted, but it is not JSON: %v", payload, err)
		}
		plan, _ := claims["plan"].(string)
		expiry, _ := claims["exp"].(float64)
		_, audienceGiven := claims["aud"]
		client, given := claims["client_id"]
		if !given {
			client = claims["azp"]
		}
		if got.Subject == "" || got.Subject != named(claims["sub"]) || claims["iss"] != issuer ||
			got.Plan != plan ||
			expiry < float64(start.Unix()) ||
			!audienceGiven && client != audience {
			t.Fatalf("%q: accepted as %+v, want valid claims only", payload, got)
		}
	})
}

// FuzzParseKeys checks that ParseKeys never panics, and that an accepted set has keys,
// each with an algorithm.
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
			t.Fatalf("%q: got %d keys, error %v, want either", text, set.Len(), err)
		}
		for _, k := range set.keys {
			if len(k.algorithms) == 0 || k.public == nil {
				t.Fatalf("%q: got key %q without algorithm or numbers", text, k.id)
			}
		}
	})
}
