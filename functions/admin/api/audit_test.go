package api

import (
	"fmt"
	"net/http"
	"testing"
)

// The audit has pages and filters. A change can be undone; what was changed since stays.
func TestAudit(t *testing.T) {
	s := newService(t)
	id := s.create("acme").ID
	for _, name := range []string{"one", "two", "three"} {
		s.do(http.MethodPatch, "/keys/"+id, map[string]any{"name": name, "reason": "to " + name},
			header{"If-Match": "*"}).wants(http.StatusOK)
	}
	var actions []string
	pages := 0
	for next := ""; pages == 0 || next != ""; pages++ {
		page := s.get("/audit?count=2&after=" + next).wants(http.StatusOK)
		items, _ := page.at("items").([]any)
		for i := range items {
			actions = append(actions, page.stringAt("items", i, "action")+" "+
				page.stringAt("items", i, "reason"))
		}
		next = page.stringAt("next")
	}
	if len(actions) != 6 || pages != 3 || actions[0] != "key.edit to three" || actions[4] != "policy.save " {
		t.Errorf("got %d pages: %q, want 3 with 6 changes, the newest first", pages, actions)
	}
	s.get("/audit?subject="+id).wants(http.StatusOK, `"before":{"id":"`+id)
	list := s.get("/audit?action=key.edit&by=ada").wants(http.StatusOK)
	if items, _ := list.at("items").([]any); len(items) != 3 {
		t.Errorf("got %s, want 3 changes", list.text)
	}
	number := func(path string) string {
		n, _ := s.get(path).at("items", 0, "number").(float64)
		return fmt.Sprint(int(n))
	}
	newest := number("/audit")
	s.get("/audit/"+newest).wants(http.StatusOK, `"reason":"to three"`, `"after":{"id":"`+id)
	undo := map[string]any{"reason": "oops"}
	s.post("/audit/"+newest+"/undo", undo).wants(http.StatusNoContent)
	s.get("/keys/"+id).wants(http.StatusOK, `"name":"two"`)
	s.post("/audit/"+newest+"/undo", undo).wants(http.StatusConflict, "changed since")
	s.post("/audit/"+number("/audit?action=key.create")+"/undo", undo).
		wants(http.StatusConflict, "delete the key instead")
	s.post("/audit/"+number("/audit?action=policy.save")+"/undo", undo).
		wants(http.StatusConflict, "keys use it (1)")
	s.post("/keys/"+id+"/revoke", nil).wants(http.StatusOK)
	s.post("/audit/"+number("/audit?action=key.revoke")+"/undo", undo).
		wants(http.StatusConflict, "stays revoked")
	s.post("/audit/999/undo", undo).wants(http.StatusNotFound, "No such change")
}

// The state of the log says that Valkey has its newest change.
func TestLog(t *testing.T) {
	s := newService(t)
	s.create("acme")
	s.get("/log").wants(http.StatusOK, `"newest":3`, `"lowest":3`, `"behind":0`, `"away":0`, `"marks":0`)
}
