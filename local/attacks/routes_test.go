//go:build unix

package attacks

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/route"
)

// dashboardSource has the pages, in tables of routes with a field pattern. apiSource is
// left out, since the OpenAPI document lists its operations.
const dashboardSource, apiSource = "../../functions/admin", "../../functions/admin/api"

// endpoint is a method and a path with a value for each path parameter.
type endpoint struct{ method, path, pattern string }

// pages reads all routes from the source of the dashboard, so that the suite attacks new
// ones too.
func pages(t *testing.T, keyID string) []endpoint {
	t.Helper()
	patterns := map[string]bool{}
	err := filepath.WalkDir(dashboardSource, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path == apiSource:
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err == nil {
			ast.Inspect(file, func(n ast.Node) bool { return addPattern(patterns, n) })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(patterns) < 50 {
		t.Fatalf("%d routes in %s: the suite does not read the tables", len(patterns), dashboardSource)
	}
	var all []endpoint
	for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
		all = append(all, endpointOf(pattern, keyID))
	}
	return all
}

var methodAndPath = regexp.MustCompile(`^(GET|POST|PUT|PATCH|DELETE) /`)

// addPattern adds the pattern of a route in the source. It returns true, so that
// ast.Inspect continues.
func addPattern(patterns map[string]bool, n ast.Node) bool {
	pair, ok := n.(*ast.KeyValueExpr)
	if !ok {
		return true
	}
	name, _ := pair.Key.(*ast.Ident)
	text, _ := pair.Value.(*ast.BasicLit)
	if name == nil || text == nil {
		return true
	}
	value, err := strconv.Unquote(text.Value)
	switch {
	case err != nil:
	case strings.EqualFold(name.Name, "pattern") && methodAndPath.MatchString(value):
		patterns[value] = true
	case name.Name == "Form" && strings.HasPrefix(value, "/"): // of a command.Spec
		patterns["GET "+value], patterns["POST "+value] = true, true
	case name.Name == "To" && strings.HasPrefix(value, "/"):
		patterns["POST "+value] = true
	}
	return true
}

// operations returns the operations of the JSON API from its OpenAPI document.
func (i *installation) operations(t *testing.T, keyID string) []endpoint {
	t.Helper()
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	got := i.site.get(t, "/api/v1/openapi.json", "Cookie", i.session(t, editorName))
	if err := json.Unmarshal([]byte(got.body), &document); err != nil {
		t.Fatalf("%d %.300s: %v", got.status, got.body, err)
	}
	var all []endpoint
	for path, methods := range document.Paths {
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			if _, found := methods[method]; found {
				all = append(all, endpointOf(strings.ToUpper(method)+" "+path, keyID))
			}
		}
	}
	if len(all) < 35 {
		t.Fatalf("%d operations: the suite does not read the document", len(all))
	}
	slices.SortFunc(all, func(a, b endpoint) int { return strings.Compare(a.pattern, b.pattern) })
	return all
}

// parameters returns the names of an operation's query parameters.
func (i *installation) parameters(t *testing.T, header []string, e endpoint) []string {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct{ Parameters []struct{ Name, In string } }
	}
	got := i.site.get(t, "/api/v1/openapi.json", header...)
	if err := json.Unmarshal([]byte(got.body), &document); err != nil {
		t.Fatalf("%d %.300s: %v", got.status, got.body, err)
	}
	method, path, _ := strings.Cut(e.pattern, " ")
	var names []string
	for _, p := range document.Paths[path][strings.ToLower(method)].Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	return names
}

func endpointOf(pattern, keyID string) endpoint {
	method, path, _ := strings.Cut(pattern, " ")
	path = strings.NewReplacer("{$}", "", "{id}", keyID, "{file}", "app.js", "{number}", "1").Replace(path)
	return endpoint{method, path, pattern}
}

// changing returns the endpoints whose method is not GET.
func changing(all []endpoint) []endpoint {
	return slices.DeleteFunc(slices.Clone(all), func(e endpoint) bool { return e.method == http.MethodGet })
}

// newestChange returns the number of the newest change.
func (i *installation) newestChange(t testing.TB) uint64 {
	t.Helper()
	page, err := i.store.Audit(t.Context(), registry.AuditQuery{Count: 1})
	if err != nil || len(page.Entries) == 0 {
		t.Fatalf("got %+v, %v, want a change", page, err)
	}
	return page.Entries[0].Number
}

// wantUnchanged fails the test if there is a change after since.
func (i *installation) wantUnchanged(t testing.TB, since uint64) {
	t.Helper()
	if now := i.newestChange(t); now != since {
		t.Errorf("an attack changed something: change %d", now)
	}
}

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
	opens := []route.Pattern{{Method: "GET", Path: "/open/*"}}
	i.edit(t, func(s *policy.Set) {
		plan, _ := s.Plan(wide)
		plan.Number, plan.Name, plan.Opens = 0, "narrow", opens
		s.Plans = append(s.Plans, plan)
	})
	k, byKey := i.key(t, wide)
	if _, err := i.store.Update(t.Context(), k.ID, k.Version, registry.KeyEdit, suiteEdit,
		func(k *policy.Key) {
			k.Opens = opens
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
