package dashboard_test

import (
	"net/http"
	"slices"
	"testing"

	"tidegate/internal/route"
	"tidegate/internal/testing/sitetest"
)

// The routes that a plan or a key allows are typed one per line, validated, shown and
// undone. A form without the field keeps them.
func TestAllowedRoutesOnPages(t *testing.T) {
	s := sitetest.New(t).Login()
	plan := func(more ...string) map[string][]string {
		return sitetest.With(planOf(1, "free", "10"), more...)
	}
	s.Post("/policies/plans/1", plan("allow", "GET /orders/*\norders")).Wants(t,
		http.StatusUnprocessableEntity, `id="allow-error"`)
	s.Post("/policies/plans/1", plan("allow", "GET /orders/*\r\nabc/prod * /health\n")).Wants(t,
		http.StatusSeeOther)
	want := []route.Pattern{{Method: "GET", Path: "/orders/*"},
		{API: "abc", Stage: "prod", Method: "*", Path: "/health"}}
	checkPlan := func(step string) {
		t.Helper()
		if p, _ := s.Set().PlanByNumber(1); !slices.Equal(p.Allow, want) {
			t.Errorf("%s: the plan allows %v, want %v", step, p.Allow, want)
		}
	}
	checkPlan("after the save")
	s.Get("/policies/plans/1").Wants(t, http.StatusOK, "GET /orders/*\nabc/prod * /health")
	s.Get("/policies").Wants(t, http.StatusOK, "Opens GET /orders/*, abc/prod * /health")
	s.Post("/policies/plans/1", sitetest.With(planOf(2, "free", "11"))).Wants(t, http.StatusSeeOther)
	checkPlan("after a form without the field")
	s.Get("/explain?key={acme}&method=GET&path=/admin").Wants(t, http.StatusOK,
		"Refused: the plan does not open this route")

	edit := func(version string, more ...string) map[string][]string {
		return sitetest.With(fields("version", version, "name", "acme", "plan", "free"), more...)
	}
	s.Post("/keys/{acme}/edit", edit("1", "allow", "GET orders")).Wants(t, http.StatusUnprocessableEntity,
		`id="allow-error"`)
	s.Post("/keys/{acme}/edit", edit("1", "allow", "GET /orders/7")).Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "GET /orders/7; plan: GET /orders/*")
	s.Post("/keys/{acme}/edit", edit("2", "tags", "x")).Wants(t, http.StatusSeeOther)
	seven := route.Pattern{Method: "GET", Path: "/orders/7"}
	if k := s.Keys.Key("acme"); len(k.Allow) != 1 || k.Allow[0] != seven {
		t.Errorf("after a form without the field: the key allows %v, want %v", k.Allow, seven)
	}
	s.Get("/explain?key={acme}&method=GET&path=/orders/8").Wants(t, http.StatusOK,
		"Refused: the key does not open this route")
	s.Post("/keys/{acme}/edit", edit("3", "allow", "")).Wants(t, http.StatusSeeOther)
	s.UndoOn("/keys/{acme}").Wants(t, http.StatusSeeOther)
	if k := s.Keys.Key("acme"); len(k.Allow) != 1 {
		t.Errorf("after the undo: the key allows %v, want %v", k.Allow, seven)
	}
}
