package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
)

// The router refuses a route without a role, and no user meets such a role.
func TestRouteWithoutRole(t *testing.T) {
	d := &server{Renderer: &page.Renderer{}}
	for _, role := range []auth.Role{auth.Nobody, auth.Editor + 1} {
		if _, err := d.newRouter(
			[]auth.Route{{Pattern: "GET /x", Role: role, Handle: d.health}},
		); err == nil || !strings.Contains(err.Error(), "GET /x") {
			t.Errorf("role %d: got %v, want an error that names GET /x", role, err)
		}
		if (auth.Actor{ID: "password:x", Kind: auth.User, Role: auth.Editor}).Meets(role) {
			t.Errorf("role %d is met by an editor", role)
		}
	}
}

// A handler has the time of its route, even if the client disconnected.
func TestRouteDeadline(t *testing.T) {
	s := &server{Renderer: &page.Renderer{}}
	left := map[string]time.Duration{}
	handle := func(_ http.ResponseWriter, r *http.Request) error {
		if at, ok := r.Context().Deadline(); ok && r.Context().Err() == nil {
			left[r.URL.Path] = time.Until(at)
		}
		return nil
	}
	var err error
	if s.pages, err = s.newRouter([]auth.Route{
		{Pattern: "GET /default", Role: auth.Anybody, Handle: handle},
		{Pattern: "GET /long", Role: auth.Anybody, Handle: handle, Deadline: auth.Long},
	}); err != nil {
		t.Fatal(err)
	}
	disconnected, cancel := context.WithCancel(t.Context())
	cancel()
	for path, want := range map[string]time.Duration{"/default": auth.Short, "/long": auth.Long} {
		r := httptest.NewRequestWithContext(disconnected, http.MethodGet, path, nil)
		s.dispatch(httptest.NewRecorder(), r)
		if left[path] <= 0 || left[path] > want {
			t.Errorf("%s: got %v left, want up to %v", path, left[path], want)
		}
	}
	if left["/long"] <= auth.Slow {
		t.Errorf("a long route has %v, want more than %v", left["/long"], auth.Slow)
	}
}
