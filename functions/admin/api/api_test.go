package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
)

// The document is valid OpenAPI 3.1 and lists exactly the routes, each with a summary, a
// tag and the token scope of its role.
func TestDocument(t *testing.T) {
	s := newService(t)
	s.document.validate(t)
	var document struct {
		OpenAPI string
		Servers []struct{ URL string }
		Paths   map[string]map[string]struct {
			OperationID string
			Summary     string
			Tags        []string
			Security    []map[string][]string
			Responses   map[string]struct{ Content map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(s.get("/openapi.json").wants(http.StatusOK).text),
		&document); err != nil {
		t.Fatal(err)
	}
	if document.OpenAPI != "3.1.0" || len(document.Servers) != 1 || document.Servers[0].URL != "/" {
		t.Errorf("got OpenAPI %s and servers %v, want 3.1.0 and /", document.OpenAPI, document.Servers)
	}
	var documented, served, ids []string
	scopes := map[string]string{}
	for path, methods := range document.Paths {
		for method, o := range methods {
			pattern := strings.ToUpper(method) + " " + path
			documented, ids = append(documented, pattern), append(ids, o.OperationID)
			if pattern == "GET "+Prefix+OwnerPath && len(o.Security) == 1 && o.Security[0]["apiKey"] != nil {
				continue // only a key can get it: package server tests it
			}
			if o.Summary == "" || len(o.Tags) != 1 || len(o.Security) != 2 ||
				len(o.Security[0]["machineToken"]) != 1 {
				t.Errorf("%s: got %+v, want a summary, a tag and two ways to authenticate", pattern, o)
				continue
			}
			scopes[pattern] = o.Security[0]["machineToken"][0]
			if _, problem := o.Responses["default"].Content["application/problem+json"]; !problem {
				t.Errorf("%s: errors have the types %v, want application/problem+json", pattern,
					o.Responses["default"].Content)
			}
		}
	}
	for _, r := range Routes("", Services{}) {
		served = append(served, r.Pattern)
		want := map[auth.Role]string{auth.Viewer: "read", auth.Editor: "write",
			auth.Settler: "settle"}[r.Role]
		if want == "" || scopes[r.Pattern] != want || r.MaxBody < rest.MaxBody {
			t.Errorf("%s: got role %v, scope %q, at most %d bytes, want scope %q", r.Pattern, r.Role,
				scopes[r.Pattern], r.MaxBody, want)
		}
		if changes := !strings.HasPrefix(r.Pattern, "GET "); changes && r.Role == auth.Viewer {
			t.Errorf("%s changes something and is open to viewers", r.Pattern)
		}
		if settles := r.Pattern == "POST /api/v1/settlements"; settles != (r.Role == auth.Settler) {
			t.Errorf("%s: got role %v, want Settler for settle only", r.Pattern, r.Role)
		}
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("documented %v\nserved     %v", documented, served)
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != len(served) {
		t.Errorf("ids of operations are not unique: %v", ids)
	}
}

// A base path appears in the document and not in the routes.
func TestDocumentBase(t *testing.T) {
	for _, r := range Routes("/prod", Services{}) {
		if !strings.Contains(r.Pattern, " "+Prefix+"/") {
			t.Errorf("got route %s, want a path below %s", r.Pattern, Prefix)
		}
	}
	if url := configOf("/prod").Servers[0].URL; url != "/prod/" {
		t.Errorf("got server %s, want /prod/", url)
	}
}
