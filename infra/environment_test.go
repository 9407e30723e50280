package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// variable is a field of a configuration with an env tag.
type variable struct{ required bool }

// variablesOf are what a function's configuration reads.
func variablesOf(t *testing.T, function string) map[string]variable {
	t.Helper()
	found := map[string]variable{}
	err := filepath.WalkDir(filepath.Join("..", "functions", function), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok && field.Tag != nil {
				tag, _ := strconv.Unquote(field.Tag.Value)
				name, options, _ := strings.Cut(reflect.StructTag(tag).Get("env"), ",")
				if name != "" {
					found[name] = variable{strings.Contains(options, "required")}
				}
			}
			return true
		})
		return nil
	})
	if err != nil || len(found) < 4 {
		t.Fatalf("variables of %s: %v, %v", function, found, err)
	}
	return found
}

// announced are variables that the functions do not read yet.
var announced = map[string]bool{
	"ADMIN_URL": true, "OIDC_CLIENT_ID": true, "OIDC_CLIENT_SECRET": true, "OIDC_EDITOR_VALUES": true, "OIDC_ISSUER": true, "OIDC_ROLE_CLAIM": true,
	"OIDC_VIEWER_VALUES": true, "STAGE": true,
}

// Every variable that a template sets is one that the function reads, and every one that it cannot do without is set.
func TestVariablesAreThoseOfTheFunctions(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		for id, function := range map[string]string{"Check": "check", "Admin": "admin"} {
			known, set := variablesOf(t, function), environment(t, made, id)
			for name := range set {
				if _, ok := known[name]; ok {
					continue
				}
				if !announced[name] {
					t.Errorf("%s: nothing reads %s", function, name)
				}
			}
			for name, v := range known {
				if v.required && set[name] == nil {
					t.Errorf("%s: %s is required, and not set", function, name)
				}
			}
		}
	})
}
