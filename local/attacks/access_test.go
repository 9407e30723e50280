//go:build unix

package attacks

import (
	"net/http"
	"strings"
	"testing"

	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// closedPaths are spellings that some readers resolve to /admin/users, or to a path
// outside /open/.
var closedPaths = []string{
	"/admin/users", "/ADMIN/users", "//admin//users", "/admin/users/", "/open/../admin/users",
	"/open/x/../../admin/users", "/open/..%2fadmin/users", "/open/..%2Fadmin%2fusers",
	"/open/%2e%2e/admin/users", "/open/.%2e/admin/users", "/open/..%252fadmin/users",
	"/open/%252e%252e/admin/users", "/open\\..\\..\\admin\\users", "/open/..\\..\\admin/users",
	"/open/..;x/..;x/admin/users", "/open;/../admin/users", "/open/../../admin/users", "/admin/users?/open/x",
	"/admin/users;/open/x", "/admin/users%00/open/x", "/admin%2fusers", "/admin/..%2fopen/x", "/open",
	"/open/",
	"/opened/x", "/%61dmin/users", "/api/open/x", "/prod/open/x", "/$default/admin/users",
}

// No spelling of a path gives a key access to a route that its own list or its plan's
// list closes.
func TestAttackClosedRoutes(t *testing.T) {
	a, i := attack(t, "routes that a key does not open",
		"29 spellings of closed paths, and other methods of open ones, with the list on the key and on "+
			"its plan, on both APIs")
	allow := []route.Pattern{{Method: "GET", Path: "/open/*"}}
	i.edit(t, func(s *policy.Set) {
		plan, _ := s.Plan(wide)
		plan.Number, plan.Name, plan.Allow = 0, "narrow", allow
		s.Plans = append(s.Plans, plan)
	})
	k, byKey := i.key(t, wide)
	if _, err := i.store.Update(t.Context(), k.ID, k.Version, "key.edit", bySuite, func(k *policy.Key) {
		k.Allow = allow
	}); err != nil {
		t.Fatal(err)
	}
	_, byPlan := i.key(t, "narrow")
	for api, c := range map[string]struct {
		target  target
		refused int
	}{"REST API": {i.rest, http.StatusUnauthorized}, "HTTP API": {i.http, http.StatusForbidden}} {
		for _, secret := range []string{byKey, byPlan} {
			if got := c.target.get(t, "/open/x", "x-api-key", secret); got.status != http.StatusOK {
				t.Fatalf("%s: /open/x: %d", api, got.status)
			}
			for _, path := range closedPaths {
				a.probe()
				got := c.target.raw(t, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nx-api-key: "+
					secret+"\r\n\r\n")
				if got.status < 400 || got.status >= 500 {
					t.Errorf("%s, %s: %d", api, path, got.status)
				}
			}
			for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
				a.probe()
				got := c.target.send(t, method, "/open/x", "", "x-api-key", secret)
				if got.status != c.refused || strings.Contains(got.body, "narrow") {
					t.Errorf("%s, %s: %d, want %d", api, method, got.status, c.refused)
				}
			}
		}
	}
}
