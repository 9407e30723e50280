package dashboard_test

import (
	"net/http"
	"testing"

	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/route"
)

// The routes of a plan and of a key are typed one a line, shown, undone, and kept by a
// form that does not have them.
func TestAccessPages(t *testing.T) {
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
	opens := func(what string) {
		t.Helper()
		p, _ := s.Set().Numbered(1)
		if len(p.Allow) != 2 || p.Allow[0] != want[0] || p.Allow[1] != want[1] {
			t.Errorf("%s: %v", what, p.Allow)
		}
	}
	opens("saved")
	s.Get("/policies/plans/1").Wants(t, http.StatusOK, "GET /orders/*\nabc/prod * /health")
	s.Get("/policies").Wants(t, http.StatusOK, "Opens GET /orders/*, abc/prod * /health")
	s.Post("/policies/plans/1", sitetest.With(planOf(2, "free", "11"))).Wants(t, http.StatusSeeOther)
	opens("a form without the field")
	s.Get("/explain?key={acme}&method=GET&path=/admin").Wants(t, http.StatusOK,
		"refused: the plan does not open this route")

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
		t.Errorf("a form without the field: %v", k.Allow)
	}
	s.Get("/explain?key={acme}&method=GET&path=/orders/8").Wants(t, http.StatusOK,
		"refused: the key does not open this route")
	s.Post("/keys/{acme}/edit", edit("3", "allow", "")).Wants(t, http.StatusSeeOther)
	s.UndoOn("/keys/{acme}").Wants(t, http.StatusSeeOther)
	if k := s.Keys.Key("acme"); len(k.Allow) != 1 {
		t.Errorf("after the undo: %v", k.Allow)
	}
}
