package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An import says of each key what became of it, creates none twice, and repeats no value.
func TestImportKeys(t *testing.T) {
	const value = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd"
	s := newService(t)
	s.keys.ForeignKeys = true
	body := map[string]any{"keys": []any{
		map[string]any{"name": "old", "plan": "free", "value": value, "tags": []string{"customer=1"}},
		map[string]any{"name": "old", "plan": "free", "value": value},
		map[string]any{"name": "gone", "plan": "free", "status": "revoked"},
		map[string]any{"name": "lost", "plan": "none", "value": value + "x"},
		map[string]any{"name": "short", "plan": "free", "value": "x"},
	}}
	got := s.post("/import", body).wants(http.StatusOK, `"state":"created"`, `"state":"exists"`,
		`"state":"failed"`, "plan ", "value must have 20 to 256", `"secret":"tg_live_`)
	if strings.Contains(got.text, value) || strings.Count(got.text, `"state":"created"`) != 2 {
		t.Error(got.text)
	}
	list := s.get("/keys").wants(http.StatusOK, `"customer=1"`, `"status":"revoked"`).text
	if n := strings.Count(list, `"windows"`); n != 2 {
		t.Errorf("%d keys: %s", n, list)
	}
	var many []any
	for i := range 101 {
		many = append(many, map[string]any{"name": fmt.Sprint(i), "plan": "free"})
	}
	s.post("/import", map[string]any{"keys": many}).wants(http.StatusUnprocessableEntity, "body.keys")
	s.post("/import", map[string]any{"keys": []any{}}).wants(http.StatusUnprocessableEntity, "body.keys")
}
