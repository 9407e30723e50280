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

// variablesOf returns the variables that a function's configuration reads.
func variablesOf(t *testing.T, function string) map[string]variable {
	t.Helper()
	found := map[string]variable{}
	err := filepath.WalkDir(filepath.Join("..", "functions", function),
		func(path string, _ fs.DirEntry, err error) error {
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

// unset has the variables that no tested deployment sets, with the reason.
var unset = map[string]string{
	"ADMIN_PASSWORD_HASH": "ADMIN_PASSWORD is generated",
	"BASE_PATH":           "the dashboard has a host name of its own",
	"JWT_ISSUERS":         "excludes JWT_ISSUER",
	"JWT_JWKS":            "excludes JWT_JWKS_URL",
}

// A function reads every variable that a template sets, a template sets every required
// variable, and settings can set all variables.
func TestVariablesAreThoseOfTheFunctions(t *testing.T) {
	ever := map[string]bool{}
	on(t, func(t *testing.T, made template) {
		for id, function := range map[string]string{"Check": "check", "Admin": "admin"} {
			known, set := variablesOf(t, function), environment(t, made, id)
			for name := range set {
				ever[function+" "+name] = true
				if _, ok := known[name]; !ok {
					t.Errorf("%s: got %s set, want only variables that the function reads", function, name)
				}
			}
			for name, v := range known {
				if v.required && set[name] == nil {
					t.Errorf("%s: want the required %s set", function, name)
				}
			}
		}
	})
	for _, function := range []string{"check", "admin"} {
		for name := range variablesOf(t, function) {
			if ever[function+" "+name] == (unset[name] != "") {
				t.Errorf("%s: %s set in a template: %t; reason in unset: %q; want one of both", function,
					name, ever[function+" "+name], unset[name])
			}
		}
	}
}
