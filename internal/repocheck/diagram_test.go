package repocheck

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
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

// imports returns the imports between rooms, without those of tests.
func imports(t *testing.T) graph {
	t.Helper()
	g := graph{}
	for _, top := range []string{"functions", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(name string, _ fs.DirEntry, err error) error {
			folder, _ := filepath.Rel(root, filepath.Dir(name)) // it is below
			from := roomOf(filepath.ToSlash(folder))
			if err != nil || from == "" || filepath.Ext(name) != ".go" ||
				strings.HasSuffix(name, "_test.go") {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				return err
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
			return nil
		})
		if err != nil {
			t.Fatal(err)
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
	want := imports(t).mermaid()
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

// The table of packages in docs/architecture.md names every room of the diagram.
func TestRoomsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(diagramPage)
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(text), diagramBegin)
	for room := range imports(t) {
		if !strings.Contains(table, "`"+room+"`") {
			t.Errorf("the table of packages lacks %s", room)
		}
	}
}
