package server

import (
	"strings"
	"testing"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
)

// The router refuses a route without a stated need, and no user meets such a need.
func TestRouteWithoutNeed(t *testing.T) {
	d := &server{Renderer: &page.Renderer{}}
	for _, n := range []need{undecided, -1, settler + 1} {
		if _, err := d.newRouter(
			[]route{{pattern: "GET /x", need: n, handle: d.health}},
		); err == nil || !strings.Contains(err.Error(), "GET /x") {
			t.Errorf("need %d: got %v, want an error that names GET /x", n, err)
		}
		if n.metBy(auth.Actor{ID: "password:x", Kind: auth.User, Role: auth.Editor}) {
			t.Errorf("need %d is met by an editor", n)
		}
	}
}
