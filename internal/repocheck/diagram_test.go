package repocheck

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the diagram of imports in docs/architecture.md")

const (
	diagramPage  = "../../docs/architecture.md"
	diagramBegin = "```mermaid\ngraph LR\n"
	diagramEnd   = "```\n"
)

// roomOf returns the room of a package in the diagram: the first three elements of a path
// in functions, the first two of one in internal. Other packages and internal/testing
// have none.
func roomOf(folder string) string {
	parts := strings.Split(folder, "/")
	depth := 2
	switch {
	case parts[0] == "functions" && len(parts) > 2:
		depth = 3
	case parts[0] != "functions" && parts[0] != "internal" || strings.HasPrefix(folder, "internal/testing"):
		return ""
	}
	return strings.Join(parts[:min(depth, len(parts))], "/")
}

type graph map[string]map[string]bool

// importsOf returns the imports between rooms, without those of tests.
func importsOf(t *testing.T, files tree) graph {
	t.Helper()
	g := graph{}
	for name, text := range files {
		from := roomOf(path.Dir(name))
		if from == "" || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") ||
			strings.HasSuffix(name, "_templ.go") || strings.Contains(name, "/sitetest/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		if g[from] == nil {
			g[from] = map[string]bool{}
		}
		for _, i := range parsed.Imports {
			other, _ := strconv.Unquote(i.Path.Value)
			imported, own := strings.CutPrefix(other, "tidegate/")
			if to := roomOf(imported); own && to != "" && to != from {
				g[from][to] = true
			}
		}
	}
	return g
}

// reaches reports whether a room imports another indirectly.
func (g graph) reaches(from, to string) bool {
	for next := range g[from] {
		if next != to && (g[next][to] || g.reaches(next, to)) {
			return true
		}
	}
	return false
}

// mermaid returns the diagram of all imports that are not implied by others.
func (g graph) mermaid() string {
	var b strings.Builder
	b.WriteString(diagramBegin)
	for _, from := range slices.Sorted(maps.Keys(g)) {
		for _, to := range slices.Sorted(maps.Keys(g[from])) {
			if !g.reaches(from, to) {
				fmt.Fprintf(&b, "  %s --> %s\n", from, to)
			}
		}
	}
	return b.String() + diagramEnd
}

// The diagram in docs/architecture.md matches the code's imports. -update rewrites it.
func TestDiagram(t *testing.T) {
	want := importsOf(t, load(t)).mermaid()
	text, err := os.ReadFile(diagramPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), diagramBegin)
	old, after, ended := strings.Cut(rest, diagramEnd)
	if !found || !ended {
		t.Fatalf("%s has no diagram", diagramPage)
	}
	if *update {
		if err := os.WriteFile(diagramPage, []byte(before+want+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diagramBegin+old+diagramEnd != want {
		t.Errorf("the diagram is stale: run go test ./internal/repocheck -run TestDiagram -update")
	}
}

// All packages of a room are one node. Implied imports and those of tests are left out.
func TestDiagramOfATree(t *testing.T) {
	files := tree{
		"functions/admin/main.go":       "package main\n\nimport _ \"tidegate/functions/admin/app\"\n",
		"functions/admin/app/sub/a.go":  "package sub\n\nimport _ \"tidegate/internal/a\"\n",
		"functions/admin/more.go":       "package main\n\nimport _ \"tidegate/internal/a/b\"\n",
		"functions/admin/more_test.go":  "package main\n\nimport _ \"tidegate/internal/c\"\n",
		"internal/a/a.go":               "package a\n\nimport _ \"tidegate/internal/a/b\"\n",
		"internal/a/b/b.go":             "package b\n\nimport _ \"fmt\"\n",
		"internal/testing/waiting/w.go": "package waiting\n\nimport _ \"tidegate/internal/c\"\n",
	}
	want := diagramBegin + "  functions/admin --> functions/admin/app\n" +
		"  functions/admin/app --> internal/a\n" + diagramEnd
	if got := importsOf(t, files).mermaid(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
