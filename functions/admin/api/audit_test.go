package api

import (
	"net/http"
	"testing"

	"tidegate/internal/audit"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/storetest"
)

// The audit log has pages and filters, and is verified. A change can be reverted with the
// current version in If-Match.
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
	if len(actions) != 5 || pages != 3 || actions[0] != "key.edit to three" || actions[4] != "policy.save " {
		t.Errorf("got %d pages: %q, want 3 with 5 entries, the newest first", pages, actions)
	}
	list := s.get("/audit?subject="+id+"&action=key.edit&by=ada").wants(http.StatusOK, `"before":{"id":"`+id)
	if items, _ := list.at("items").([]any); len(items) != 3 {
		t.Errorf("got %s, want 3 entries", list.text)
	}
	s.get("/audit/verify").wants(http.StatusOK, `"entries":5`, `"good":true`, `"broken":[]`)
	entry := list.stringAt("items", 1, "id") // of the change from one to two
	s.get("/audit/"+entry).wants(http.StatusOK, `"reason":"to two"`)

	revert := map[string]any{"reason": "oops"}
	s.post("/audit/"+entry+"/revert", revert).wants(http.StatusPreconditionRequired)
	s.do(http.MethodPost, "/audit/"+entry+"/revert", revert,
		header{"If-Match": `"3"`}).wants(http.StatusPreconditionFailed, `"currentVersion":4`)
	s.do(http.MethodPost, "/audit/"+entry+"/revert", revert, header{"If-Match": `"4"`}).wants(http.StatusOK,
		`"version":5`)
	s.get("/keys/"+id).wants(http.StatusOK, `"name":"one"`)
	created := s.get("/audit?action=key.create").stringAt("items", 0, "id")
	s.do(http.MethodPost, "/audit/"+created+"/revert", revert,
		header{"If-Match": "*"}).wants(http.StatusConflict, "delete the key instead")
	saved := s.get("/audit?subject=policy").stringAt("items", 0, "id")
	s.do(http.MethodPost, "/audit/"+saved+"/revert", revert,
		header{"If-Match": "*"}).wants(http.StatusConflict, "keys use it (1)")
	s.do(http.MethodDelete, "/keys/"+id, nil, nil).wants(http.StatusNoContent)
	s.do(http.MethodPost, "/audit/"+entry+"/revert", revert,
		header{"If-Match": "*"}).wants(http.StatusConflict, "deleted since")
}

// A chain whose newest entry was removed is not good, and the response names its end.
func TestAuditCut(t *testing.T) {
	s := newService(t)
	k := s.create("acme")
	stream := audit.Stream(keyspace.BucketOf(k.ID))
	root := storetest.Connect(t, s.url)
	newest, err := root.Do(t.Context(),
		root.B().Xrevrange().Key(stream).End("+").Start("-").Count(1).Build()).AsXRange()
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Do(t.Context(), root.B().Xdel().Key(stream).Id(newest[0].ID).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	verified := s.get("/audit/verify").wants(http.StatusOK, `"good":false`, `"broken":[]`, `"missing":1`)
	if cuts, _ := verified.at("cuts").([]any); len(cuts) != 1 {
		t.Errorf("got %s, want one cut", verified.text)
	}
}
