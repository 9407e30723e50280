package api

import (
	"errors"
	"net/http"
	"testing"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/registrytest"
	"tidegate/web/middleware"
)

// settling saves a route whose backend settles its cost, and limits of the caller, its
// units and all callers together.
func (s *service) settling(costs map[string]int64) {
	s.t.Helper()
	registrytest.Save(s.t, s.keys, byTest, func(set *policy.Set) {
		set.Plans[0].Limits = limitsOf("100 per hour", "2,000 input per hour")
		set.Limits = limitsOf("1,000 per hour, on chat, together")
		set.Routes = []limits.Route{{Name: "chat", Match: []route.Pattern{{Method: "POST", Path: "/chat"}},
			Cost: limits.Costs{Units: costs}, Settle: true}}
	})
}

// The middleware's client settles a call once. What a settlement charges above a limit is
// owed, and limits together keep the estimate.
func TestSettle(t *testing.T) {
	s := newService(t)
	s.settling(map[string]int64{limits.Cost: 6})
	id := s.create("worker").ID
	settler := middleware.Settler{URL: s.server.URL, Token: "machine"}
	text := s.call(id, "/chat").Settlement
	if got, err := settler.Settle(t.Context(), text, 2); err != nil || got.Reserved["cost"] != 6 ||
		got.Actual["cost"] != 2 || got.Owed != 0 || got.Partial {
		t.Errorf("got %+v, %v, want 6 reserved and 2 actual", got, err)
	}
	s.get("/keys/"+id).wants(http.StatusOK, `"text":"100 per hour"`, `"used":2`)
	var refused *middleware.SettleError
	if _, err := settler.Settle(t.Context(), text, 2); !errors.As(err, &refused) ||
		refused.Status != http.StatusConflict {
		t.Errorf("settled twice: got %v, want status 409", err)
	}
	got, err := settler.Settle(t.Context(), s.call(id, "/chat").Settlement, 500)
	if err != nil || got.Reserved["cost"] != 6 || got.Actual["cost"] != 500 || got.Owed != 402 {
		t.Errorf("got %+v, %v, want 402 owed", got, err)
	}
	if l := s.call(id, "/chat").Limits[0]; l.Owed != 402 || !l.Denies() {
		t.Errorf("got %+v, want 402 owed and a denial", l)
	}
	s.get("/explain?key="+s.create("other").ID+"&method=POST&path=/chat").wants(http.StatusOK,
		`"text":"1,000 per hour, on chat, together"`, `"used":12`)
}

// A settlement has a cost for each unit; a unit that is missing keeps its estimate.
func TestSettleUnits(t *testing.T) {
	s := newService(t)
	s.settling(map[string]int64{limits.Cost: 1, "input": 500})
	id := s.create("worker").ID
	settle := func(cost any) reply {
		t.Helper()
		return s.post("/settlements",
			map[string]any{"settlement": s.call(id, "/chat").Settlement, "cost": cost})
	}
	settle(map[string]any{"input": 20}).wants(http.StatusOK, `"reserved":{"cost":1,"input":500}`,
		`"actual":{"input":20}`)
	s.get("/keys/"+id).wants(http.StatusOK, `"used":1`, `"used":20`)
	settle(0).wants(http.StatusOK, `"actual":{"cost":0,"input":0}`)
	s.get("/keys/"+id).wants(http.StatusOK, `"used":1`, `"used":20`)
}

// A text or a cost that is none is refused with its field.
func TestSettleRefuses(t *testing.T) {
	s := newService(t)
	for _, c := range []struct {
		body map[string]any
		want string
	}{
		{map[string]any{"settlement": "tgr_AAAA", "cost": 1}, "not a settlement"},
		{map[string]any{"settlement": "tgr_AAAA", "cost": -1}, "not a settlement"},
		{map[string]any{"settlement": "tgr_AAAA", "cost": 1.5}, "body.cost"},
		{map[string]any{"settlement": "tgr_AAAA", "cost": nil}, "body.cost"},
		{map[string]any{"settlement": "tgr_AAAA", "cost": map[string]any{"input": "many"}}, "body.cost"},
		{map[string]any{"settlement": "tgr_AAAA"}, "required property cost"},
	} {
		s.post("/settlements", c.body).wants(http.StatusUnprocessableEntity, c.want)
	}
	s.post("/settlements/reserve", map[string]any{"keyId": "x", "cost": 1}).wants(http.StatusNotFound)
}
