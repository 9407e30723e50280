package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/token"
	"tidegate/internal/registry"
)

// Users create tokens, and tokens cannot. A secret is shown once. The audit has the
// creation and the revocation, without the secret.
func TestTokens(t *testing.T) {
	s := newService(t)
	body := map[string]any{"name": "ci", "scope": "write", "expires": time.Now().Add(time.Hour)}
	s.actor = machine
	s.post("/tokens", body).wants(http.StatusForbidden, "A token cannot create a token")
	s.get("/me").wants(http.StatusOK, `"kind":"token"`, `"role":"editor"`)
	s.actor = ada
	made := s.post("/tokens", body).wants(http.StatusCreated)
	id, secret := made.stringAt("token", "id"), made.stringAt("secret")
	if known, err := s.tokens.Authenticate(t.Context(), secret); err != nil || known.Scope != token.Write ||
		known.Actor().Role != auth.Editor {
		t.Fatalf("got %+v, %v, want scope write and an editor", known, err)
	}
	list := s.get("/tokens").wants(http.StatusOK, id, `"createdBy":"ada"`)
	s.actor = machine
	s.do(http.MethodDelete, "/tokens/"+id, nil, nil).wants(http.StatusNoContent)
	if _, err := s.tokens.Authenticate(t.Context(), secret); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("after the revocation: got %v, want ErrUnknown", err)
	}
	log := s.get("/audit?subject=token:"+id).wants(http.StatusOK, `"action":"token.create"`,
		`"action":"token.revoke"`, `"name":"ci"`, `"scope":"write"`)
	for _, text := range []string{list.text, log.text} {
		if len(secret) > 20 && (strings.Contains(text, secret) ||
			strings.Contains(text, secret[len("tga_")+12:])) {
			t.Errorf("the response has the secret: %s", text)
		}
	}
	if log.stringAt("items", 0, "by", "name") != machine.String() ||
		log.stringAt("items", 1, "by", "name") != "ada" {
		t.Errorf("got %s, want entries by the machine and by ada", log.text)
	}
	if page, err := s.keys.Audit(t.Context(), registry.AuditQuery{Action: "token."}); err != nil ||
		len(page.Entries) != 2 {
		t.Errorf("got %+v, %v, want 2 entries", page, err)
	}
}
