package api

import (
	"net/http"
	"strings"
	"testing"

	"tidegate/internal/apikey"
	"tidegate/internal/testing/waiting"
)

// repeatable sends a request as POST with an Idempotency-Key.
func (s *service) repeatable(path, name string, body any, more header) reply {
	s.t.Helper()
	headers := header{"Idempotency-Key": name}
	for n, v := range more {
		headers[n] = v
	}
	return s.do(http.MethodPost, path, body, headers)
}

// changes returns the number of the newest change.
func (s *service) changes() any {
	s.t.Helper()
	return s.get("/audit?count=1").at("items", 0, "number")
}

// A creation that is repeated with its Idempotency-Key creates one key and gives the same
// secret, which checks accept, also after an edit. Other callers, names and bodies make other
// keys or are refused.
func TestRepeatedCreation(t *testing.T) {
	s := newService(t)
	body := map[string]any{"name": "a", "plan": "free", "reason": "first"}
	first := s.repeatable("/keys", "one", body, nil).wants(http.StatusCreated)
	id, secret := first.stringAt("key", "id"), first.stringAt("secret")
	number := s.changes()
	again := s.repeatable("/keys", "one", body, nil).wants(http.StatusCreated)
	if again.text != first.text || again.header.Get("Location") != first.header.Get("Location") ||
		again.header.Get("ETag") != first.header.Get("ETag") || s.changes() != number {
		t.Errorf("got %s, change %v, want %s, change %v", again.text, s.changes(), first.text, number)
	}
	parsed, err := apikey.Parse(secret)
	if err != nil || parsed.ID() != id {
		t.Fatalf("got the secret %q of %s, %v", secret, id, err)
	}
	s.secrets[id] = parsed
	s.calls(id, 1)
	s.do(http.MethodPatch, "/keys/"+id, map[string]any{"name": "b"}, header{"If-Match": "*"}).
		wants(http.StatusOK)
	if got := s.repeatable("/keys", "one", body, nil).wants(http.StatusCreated, `"name":"b"`); got.
		stringAt("secret") != secret {
		t.Errorf("after an edit: got %s, want the first secret", got.text)
	}

	other := map[string]any{"name": "a", "plan": "free", "reason": "second"}
	s.repeatable("/keys", "one", other, nil).wants(http.StatusUnprocessableEntity, "header.Idempotency-Key",
		"another request")
	two := s.repeatable("/keys", "two", body, nil).wants(http.StatusCreated)
	if two.stringAt("key", "id") == id {
		t.Error("another Idempotency-Key gets the same key")
	}
	s.actor = machine
	if got := s.repeatable("/keys", "one", body, nil).wants(http.StatusCreated); got.
		stringAt("key", "id") == id || strings.Contains(got.text, secret) {
		t.Errorf("another caller gets %s", got.text)
	}
	s.repeatable("/keys", strings.Repeat("x", 256), body, nil).wants(http.StatusUnprocessableEntity)
	s.repeatable("/keys", "", body, nil).wants(http.StatusUnprocessableEntity, "header.Idempotency-Key",
		"has no value")
	s.actor = ada

	s.do(http.MethodPost, "/keys/"+id+"/rotate", map[string]any{"grace": "0s"}, header{"If-Match": "*"}).
		wants(http.StatusCreated)
	if got := s.repeatable("/keys", "one", body, nil).wants(http.StatusCreated); got.body["secret"] != nil {
		t.Errorf("after a rotation: got %s, want no secret", got.text)
	}
	s.do(http.MethodDelete, "/keys/"+id, nil, nil).wants(http.StatusNoContent)
	s.repeatable("/keys", "one", body, nil).wants(http.StatusConflict, "was deleted", "new Idempotency-Key")
	s.repeatable("/keys", "one", other, nil).wants(http.StatusUnprocessableEntity, "another request")
	s.get("/keys/" + id).wants(http.StatusNotFound)
	if strings.Contains(s.get("/audit").text, secret) {
		t.Error("the audit has the secret")
	}
}

// Requests at the same time with one Idempotency-Key create one key.
func TestCreationsAtOnce(t *testing.T) {
	s := newService(t)
	replies := make(chan string, 6)
	for range cap(replies) {
		go func() {
			replies <- s.send(http.MethodPost, "/keys", map[string]any{"name": "a", "plan": "free"},
				header{"Idempotency-Key": "one"}).stringAt("secret")
		}()
	}
	secrets := map[string]bool{}
	for range cap(replies) {
		secrets[waiting.For(t, "the answer", replies)] = true
	}
	if keys, _ := s.get("/keys").at("items").([]any); len(secrets) != 1 || secrets[""] || len(keys) != 1 {
		t.Errorf("got secrets %v of %d keys, want one", secrets, len(keys))
	}
}

// A rotation that is repeated gives the same secret once.
func TestRepeatedRotation(t *testing.T) {
	s := newService(t)
	id := s.create("a").ID
	etag := s.get("/keys/" + id).header.Get("ETag")
	rotate := func(name string, body map[string]any) reply {
		t.Helper()
		return s.repeatable("/keys/"+id+"/rotate", name, body, header{"If-Match": etag})
	}
	body := map[string]any{"grace": "1h"}
	first := rotate("one", body).wants(http.StatusCreated)
	number := s.changes()
	again := rotate("one", body).wants(http.StatusCreated)
	if again.text != first.text || s.changes() != number {
		t.Errorf("got %s, want %s", again.text, first.text)
	}
	rotate("one", map[string]any{"grace": "2h"}).wants(http.StatusUnprocessableEntity, "another request")
	rotate("two", body).wants(http.StatusPreconditionFailed)
	secret, err := apikey.Parse(first.stringAt("secret"))
	if err != nil || secret.ID() != id {
		t.Fatal(err)
	}
	s.secrets[id] = secret
	s.calls(id, 1)
}

// A caller's record that is created again by the same request is the same.
func TestRepeatedRecord(t *testing.T) {
	s := newService(t)
	body := map[string]any{"kind": "token", "issuer": "i", "holder": "ada", "name": "Ada", "reason": "x"}
	first := s.repeatable("/callers", "one", body, nil).wants(http.StatusCreated)
	number := s.changes()
	again := s.repeatable("/callers", "one", body, nil).wants(http.StatusCreated)
	if again.text != first.text || s.changes() != number {
		t.Errorf("got %s, want %s", again.text, first.text)
	}
	s.repeatable("/callers", "two", body, nil).wants(http.StatusConflict)
	body["name"] = "Bob"
	s.repeatable("/callers", "one", body, nil).wants(http.StatusUnprocessableEntity, "another request")
}

// An import says that it creates no new secrets once.
func TestRepeatedImport(t *testing.T) {
	s := newService(t)
	s.repeatable("/import", "one", map[string]any{"keys": []any{map[string]any{"name": "a", "plan": "free"}}},
		nil).wants(http.StatusUnprocessableEntity, "header.Idempotency-Key", "one by one")
}
