package api

import (
	"net/http"
	"strings"
	"testing"
)

// Routes that a plan or a key opens are written, read, explained and taken back.
func TestAccess(t *testing.T) {
	s := newService(t)
	orders := map[string]any{"method": "GET", "path": "/orders/*"}
	id := s.post("/keys", map[string]any{"name": "a", "plan": "free", "allow": []any{orders}}).wants(
		http.StatusCreated, `"allow":[{"method":"GET","path":"/orders/*"}]`).stringAt("key", "id")
	explain := func(path, want string) {
		t.Helper()
		s.get("/explain?key="+id+"&method=GET&path="+path).wants(http.StatusOK, want)
	}
	explain("/orders/7", `"allowed":true`)
	explain("/admin", "the key does not open this route")
	s.post("/keys", map[string]any{"name": "b", "plan": "free", "allow": []any{map[string]any{"path": "x"}}}).
		wants(http.StatusUnprocessableEntity, "body.allow[0].path")
	s.do(http.MethodPatch, "/keys/"+id, map[string]any{"name": "c"}, header{"If-Match": `"1"`}).
		wants(http.StatusOK, `"allow":[{"method":"GET"`)
	cleared := s.do(http.MethodPatch, "/keys/"+id, map[string]any{"allow": []any{}},
		header{"If-Match": `"2"`}).
		wants(http.StatusOK)
	if strings.Contains(cleared.text, "allow") {
		t.Errorf("not cleared: %s", cleared.text)
	}
	explain("/admin", `"allowed":true`)
}
