package dashboard_test

import (
	"net/http"
	"slices"
	"testing"

	"tidegate/internal/route"
	"tidegate/internal/testing/sitetest"
)

// The routes that a plan or a key allows are typed one per line, validated, shown and
// undone.
func TestAllowedRoutesOnPages(t *testing.T) {
	s := sitetest.New(t).Login()
	plan := func(more ...string) map[string][]string {
		return sitetest.With(planOf(1, "free", "10"), more...)
	}
	s.Post("/policies/plans/1/edit", plan("allow", "GET /orders/*\norders")).Wants(t,
		http.StatusUnprocessableEntity, `id="allow-error"`)
	s.Post("/policies/plans/1/edit", plan("allow", "GET /orders/*\r\nabc/prod * /health\n")).Wants(t,
		http.StatusSeeOther)
	want := []route.Pattern{{Method: "GET", Path: "/orders/*"},
		{API: "abc", Stage: "prod", Method: "*", Path: "/health"}}
	if p, _ := s.Set().PlanByNumber(1); !slices.Equal(p.Allow, want) {
		t.Errorf("after the save: the plan allows %v, want %v", p.Allow, want)
	}
	s.Get("/policies/plans/1/edit").Wants(t, http.StatusOK, "GET /orders/*\nabc/prod * /health")
	s.Get("/policies").Wants(t, http.StatusOK, "Opens GET /orders/*, abc/prod * /health")
	s.Get("/explain?key={acme}&method=GET&path=/admin").Wants(t, http.StatusOK,
		"Refused: the plan does not open this route")

	edit := func(version string, more ...string) map[string][]string {
		return sitetest.With(fields("version", version, "name", "acme", "plan", "free"), more...)
	}
	s.Post("/keys/{acme}/edit", edit("1", "allow", "GET orders")).Wants(t, http.StatusUnprocessableEntity,
		`id="allow-error"`)
	s.Post("/keys/{acme}/edit", edit("1", "allow", "GET /orders/7")).Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "GET /orders/7; plan: GET /orders/*")
	seven := route.Pattern{Method: "GET", Path: "/orders/7"}
	if k := s.Keys.Key("acme"); len(k.Allow) != 1 || k.Allow[0] != seven {
		t.Errorf("after the save: the key allows %v, want %v", k.Allow, seven)
	}
	s.Get("/explain?key={acme}&method=GET&path=/orders/8").Wants(t, http.StatusOK,
		"Refused: the key does not open this route")
	s.Post("/keys/{acme}/edit", edit("2", "allow", "")).Wants(t, http.StatusSeeOther)
	s.UndoOn("/keys/{acme}").Wants(t, http.StatusSeeOther)
	if k := s.Keys.Key("acme"); len(k.Allow) != 1 {
		t.Errorf("after the undo: the key allows %v, want %v", k.Allow, seven)
	}
}
