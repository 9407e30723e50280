package api

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/testing/registrytest"
	"tidegate/web/middleware"
)

func (s *service) reserve(id string, cost int64) reply {
	s.t.Helper()
	return s.post("/reservations", map[string]any{"keyId": id, "cost": cost})
}

// A reservation is refused with Retry-After if a limit is reached, and the middleware's
// client settles a granted one once.
func TestReservations(t *testing.T) {
	s := newService(t)
	id := s.create("worker").ID
	granted := s.reserve(id, 6).wants(http.StatusCreated, `"remaining":4`, `"scope":"key"`)
	denied := s.reserve(id, 5).wants(http.StatusTooManyRequests, "quota-exceeded")
	if len(denied.header.Get("Retry-After")) != 3 {
		t.Errorf("got %v, want a Retry-After of 3 digits", denied.header)
	}
	settler := middleware.Settler{URL: s.server.URL, Token: "machine"}
	text := granted.stringAt("reservation")
	if got, err := settler.Settle(t.Context(), text, 2); err != nil ||
		got != (middleware.Settlement{Reserved: 6, Actual: 2, SettleMax: 60}) {
		t.Errorf("got %+v, %v, want 6 reserved, 2 actual, 60 at most", got, err)
	}
	var refused *middleware.SettleError
	if _, err := settler.Settle(t.Context(), text, 2); !errors.As(err, &refused) ||
		refused.Status != http.StatusConflict {
		t.Errorf("settled twice: got %v, want status 409", err)
	}
	s.reserve(id, 8).wants(http.StatusCreated)
	s.reserve("nobody", 1).wants(http.StatusNotFound)
	s.reserve(id, 11).wants(http.StatusUnprocessableEntity, "at most what every limit")
	s.reserve(id, 0).wants(http.StatusUnprocessableEntity, "body.cost")
	s.post("/reservations", map[string]any{"keyId": id, "cost": 1, "route": "no such"}).wants(
		http.StatusNotFound)
	s.post("/reservations/settle", map[string]any{"reservation": "tgr_AAAA", "cost": 1}).wants(
		http.StatusUnprocessableEntity, "not a reservation")
	s.post("/reservations/settle",
		map[string]any{"reservation": text, "cost": -1}).wants(http.StatusUnprocessableEntity, "body.cost")
	if _, err := registrytest.Revoke(t.Context(), s.keys, id, 1, byTest); err != nil {
		t.Fatal(err)
	}
	s.reserve(id, 1).wants(http.StatusNotFound)
}

// A reservation for a banned key is refused with the problem type of a ban.
func TestReserveForBannedKey(t *testing.T) {
	s := newService(t)
	k := s.create("worker")
	_, err := s.keys.Update(t.Context(), k.ID, 1, "key.ban", byTest, func(k *policy.Key) {
		k.Banned = time.Now().Add(time.Hour)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.reserve(k.ID, 1).wants(http.StatusTooManyRequests, "banned",
		`"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected"`)
}

// A settlement above the rule's settleMax charges shared limits only up to settleMax, and
// the response has the rest.
func TestSettleAboveTheMaximum(t *testing.T) {
	s := newService(t)
	id := s.create("worker").ID
	perHour := func(requests int64) []limiter.Limit {
		return []limiter.Limit{{Requests: requests, Window: time.Hour}}
	}
	registrytest.Save(t, s.keys, byTest, func(set *policy.Set) {
		set.Plans[0].Limits = perHour(500_000)
		set.Routes = []policy.Route{{Name: "chat", Cost: 40, Shared: perHour(100_000)}}
	})
	reserve := func(key string) reply {
		t.Helper()
		return s.post("/reservations",
			map[string]any{"keyId": key, "route": "chat", "cost": 40}).wants(http.StatusCreated)
	}
	settler := middleware.Settler{URL: s.server.URL, Token: "machine"}
	got, err := settler.Settle(t.Context(), reserve(id).stringAt("reservation"), 1_000_000_000)
	want := middleware.Settlement{
		Reserved: 40, Actual: 1_000_000_000, SettleMax: 400, Owed: 500_000,
		AboveMax: 1_000_000_000 - 400,
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	reserve(s.create("other").ID).wants(http.StatusCreated, `"scope":"route-all"`, `"remaining":99560`)
	s.post("/reservations", map[string]any{"keyId": id, "cost": 1}).wants(http.StatusTooManyRequests)
}

// settleMax is saved and read as JSON. An invalid one is refused with its field, also in
// a dry run and in a file.
func TestSettleMaxAsJSON(t *testing.T) {
	s := newService(t)
	plans := []any{map[string]any{"name": "free",
		"limits": []any{map[string]any{"requests": 10, "window": "10s"}}}}
	put := func(query string, settleMax any) reply {
		t.Helper()
		rule := map[string]any{"name": "chat", "pattern": map[string]any{}, "cost": 4, "settle": true,
			"settleMax": settleMax}
		return s.do(http.MethodPut, "/policy"+query, map[string]any{"plans": plans, "routes": []any{rule}},
			header{"If-Match": `"1"`})
	}
	for _, query := range []string{"?reason=x", "?dry_run=true"} {
		put(query, 3).wants(http.StatusUnprocessableEntity, "routes[0].settleMax",
			"must be at least the cost, 4 to 1000000000")
		put(query, 0).wants(http.StatusUnprocessableEntity, "settleMax")
		put(query, 1_000_000_001).wants(http.StatusUnprocessableEntity, "settleMax")
		put(query, "many").wants(http.StatusUnprocessableEntity, "settleMax")
	}
	put("?dry_run=true", 50).wants(http.StatusOK, "at most 50 on shared limits", `"applied":false`)
	put("?reason=x", 50).wants(http.StatusOK, "at most 50 on shared limits", `"applied":true`)
	s.get("/policy").wants(http.StatusOK, `"settleMax":50`)
	file := "plans: [{name: free, limits: [10 per 10 seconds]}]\nroutes: [{name: chat, pattern: '*', cost: " +
		"4, settle: true, settleMax: 3}]\n"
	s.putFile("?reason=x", "version: 2\n"+file, nil).wants(http.StatusUnprocessableEntity, `"line":3`,
		"routes[0].settleMax", "must be at least the cost, 4 to")
}
