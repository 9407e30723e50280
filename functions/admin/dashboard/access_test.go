package dashboard_test

import (
	"net/http"
	"slices"
	"testing"

	"tidegate/internal/route"
	"tidegate/internal/testing/sitetest"
)

// The routes that a plan or a key opens are typed one per line, validated, shown and
// undone.
func TestOpenRoutesOnPages(t *testing.T) {
	s := sitetest.New(t).Login()
	plan := func(more ...string) map[string][]string {
		return sitetest.With(planOf("{policy#}", "free", "10"), more...)
	}
	s.Post("/policies/plans/1/edit", plan("opens", "GET /orders/*\norders")).Wants(t,
		http.StatusUnprocessableEntity, `id="opens-error"`)
	s.Post("/policies/plans/1/edit", plan("opens", "GET /orders/*\r\nabc/prod * /health\n")).Wants(t,
		http.StatusSeeOther)
	want := []route.Pattern{{Method: "GET", Path: "/orders/*"},
		{API: "abc", Stage: "prod", Method: "*", Path: "/health"}}
	if p, _ := s.Set().PlanByNumber(1); !slices.Equal(p.Opens, want) {
		t.Errorf("after the save: the plan opens %v, want %v", p.Opens, want)
	}
	s.Get("/policies/plans/1/edit").Wants(t, http.StatusOK, "GET /orders/*\nabc/prod * /health")
	s.Get("/policies").Wants(t, http.StatusOK, "Opens GET /orders/*, abc/prod * /health")
	s.Get("/explain?key={acme}&method=GET&path=/admin").Wants(t, http.StatusOK,
		"Refused: the plan does not open this route")

	edit := func(version string, more ...string) map[string][]string {
		return sitetest.With(fields("version", version, "name", "acme", "plan", "free"), more...)
	}
	s.Post("/keys/{acme}/edit", edit("{acme#}", "opens", "GET orders")).Wants(t,
		http.StatusUnprocessableEntity,
		`id="opens-error"`)
	s.Post("/keys/{acme}/edit", edit("{acme#}", "opens", "GET /orders/7")).Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "GET /orders/7; plan: GET /orders/*")
	seven := route.Pattern{Method: "GET", Path: "/orders/7"}
	if k := s.Keys.Key("acme"); len(k.Opens) != 1 || k.Opens[0] != seven {
		t.Errorf("after the save: the key opens %v, want %v", k.Opens, seven)
	}
	s.Get("/explain?key={acme}&method=GET&path=/orders/8").Wants(t, http.StatusOK,
		"Refused: the key does not open this route")
	s.Post("/keys/{acme}/edit", edit("{acme#}", "opens", "")).Wants(t, http.StatusSeeOther)
	s.UndoOn("/keys/{acme}").Wants(t, http.StatusSeeOther)
	if k := s.Keys.Key("acme"); len(k.Opens) != 1 {
		t.Errorf("after the undo: the key opens %v, want %v", k.Opens, seven)
	}
}
