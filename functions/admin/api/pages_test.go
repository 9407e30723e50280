package api

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named matches an operation on a page: `PUT /api/v1/keys/ID/override`.
var named = regexp.MustCompile("`(GET|POST|PUT|PATCH|DELETE)\\s(/[a-z][\\w/.-]*)")

// The OpenAPI document has the operations that pages name, on the API's page without
// /api/v1.
func TestOperationsOfThePages(t *testing.T) {
	document := newService(t).document
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range named.FindAllStringSubmatch(string(page), -1) {
			method, path := call[1], call[2]
			switch {
			case path == "/api/v1/self":
				continue // in the document only with the owner's view
			case strings.HasPrefix(path, "/api/v1/"):
			case filepath.Base(file) == "api.md":
				path = "/api/v1" + path
			default:
				continue // of a reader's own API
			}
			found++
			if _, documented := document.operation(method, path); !documented {
				t.Errorf("%s: there is no operation %s %s", file, method, path)
			}
		}
	}
	if found < 15 {
		t.Errorf("the pages name only %d operations", found)
	}
}
