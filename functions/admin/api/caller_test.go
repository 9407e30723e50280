package api

import (
	"net/http"
	"testing"
)

// A caller that others vouch for gets a record under the id that checks know it by, and
// then an override like any key.
func TestAdopt(t *testing.T) {
	s := newService(t)
	body := map[string]any{"kind": "token", "issuer": "https://issuer.example", "holder": "bob",
		"name": "bob", "reason": "abuse"}
	made := s.post("/callers", body).wants(http.StatusCreated, `"kind":"token"`)
	id := s.keys.TokenCaller("https://issuer.example", "bob")
	if made.stringAt("id") != id || made.header.Get("Location") != Prefix+"/keys/"+id ||
		made.header.Get("ETag") != `"1"` {
		t.Errorf("%v %s", made.header, made.text)
	}
	s.post("/callers", body).wants(http.StatusConflict, "already")
	override := map[string]any{"limits": []any{map[string]any{"requests": 5, "window": "1m"}},
		"reason": "abuse"}
	s.do(http.MethodPut, "/keys/"+id+"/override", override, header{"If-Match": `"1"`}).wants(http.StatusOK)
	s.do(http.MethodPost, "/keys/"+id+"/rotate", map[string]any{"grace": "0s"},
		header{"If-Match": "*"}).wants(http.StatusConflict)
	s.post("/callers", map[string]any{"kind": "address", "network": "203.0.113.7/32", "name": "home",
		"reason": "x", "override": override}).
		wants(http.StatusCreated, `"requests":5`)
	for field, body := range map[string]string{
		"body.id":      `{"kind":"token","id":"short","name":"a","reason":"x"}`,
		"body.issuer":  `{"kind":"token","holder":"bob","name":"a","reason":"x"}`,
		"body.network": `{"kind":"address","network":"home","name":"a","reason":"x"}`,
		"body.kind":    `{"kind":"key","name":"a","reason":"x"}`,
		"body.name":    `{"kind":"address","network":"203.0.113.8/32","name":" ","reason":"x"}`,
		"body.override.limits[0].requests": `{"kind":"address","network":"203.0.113.8/32","name":"a","reason":"x",` +
			`"override":{"reason":"x","limits":[{"requests":0,"window":"1s"}]}}`,
	} {
		s.post("/callers", []byte(body)).wants(http.StatusUnprocessableEntity, field)
	}
}
