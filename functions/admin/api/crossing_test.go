package api

import (
	"net/http"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// What a reservation and its settlement cross is listed, newest first, in pages and by
// key.
func TestCrossings(t *testing.T) {
	s := newService(t)
	id := s.create("worker").ID
	set, err := s.keys.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set.Plans[0].Limits = []limiter.Limit{{Requests: 100, Window: time.Hour,
		Notify: limiter.Thresholds{50, 80}}}
	set.Routes = []policy.Route{{Name: "chat", Cost: 10, Settle: true}}
	if _, err := s.keys.SaveSet(t.Context(), *set, byTest); err != nil {
		t.Fatal(err)
	}
	s.get("/crossings").wants(http.StatusOK, `"items":[]`)
	reserved := s.post("/reservations", map[string]any{"keyId": id, "route": "chat", "cost": 60}).wants(
		http.StatusCreated)
	s.post("/reservations/settle", map[string]any{"reservation": reserved.stringAt("reservation"),
		"cost": 85}).wants(http.StatusOK)
	first := s.get("/crossings?count=1").wants(http.StatusOK, `"threshold":80`, `"used":85`, `"max":100`,
		`"limit":"100 per 1 hour"`, `"scope":"key"`, `"subject":"`+id+`"`, `"name":"worker"`, `"plan":"`)
	s.get("/crossings?count=1&after="+first.stringAt("next")).wants(http.StatusOK, `"threshold":50`,
		`"used":60`)
	s.get("/crossings?key="+s.create("other").ID).wants(http.StatusOK, `"items":[]`)
	s.get("/crossings?after=x").wants(http.StatusUnprocessableEntity, "query.after")
}
