//go:build unix

package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var variableName = regexp.MustCompile("`([A-Z][A-Z0-9_]+)`")

// documentedVariables returns a function's variables in docs/configuration.md.
func documentedVariables(t *testing.T, function string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.TrimSpace(cells[2]) != function &&
			strings.TrimSpace(cells[2]) != "both" {
			continue
		}
		for _, name := range variableName.FindAllStringSubmatch(cells[1], -1) {
			names = append(names, name[1])
		}
	}
	if len(names) < 15 {
		t.Fatalf("docs/configuration.md has %d variables of %s", len(names), function)
	}
	slices.Sort(names)
	return names
}

// setting is a variable of a built function: the observed behaviour for each value. At
// least two values with different behaviour show that the function obeys it.
type setting[F any] struct {
	with map[string]string // other variables
	seen map[string]string
	look func(*testing.T, F) string
}

// obeyed runs the function with each value of each documented variable. It fails for a
// variable without a row, and for a row without a documented variable.
func obeyed[F any](t *testing.T, documented []string, rows map[string]setting[F],
	start func(*testing.T, map[string]string) F) {
	t.Helper()
	for name := range rows {
		if !slices.Contains(documented, name) {
			t.Errorf("%s is not in docs/configuration.md", name)
		}
	}
	for _, name := range documented {
		row, ok := rows[name]
		if !ok {
			t.Errorf("no test changes %s and sees the effect in the built function", name)
			continue
		}
		seen := map[string]bool{}
		// Rows run in order: a run with AUDIT_RETENTION moves entries that the run
		// without it restores.
		for _, value := range slices.Sorted(maps.Keys(row.seen)) {
			want := row.seen[value]
			t.Run(name+"="+value, func(t *testing.T) {
				variables := map[string]string{}
				maps.Copy(variables, row.with)
				variables[name] = value
				if got := row.look(t, start(t, variables)); got != want {
					t.Errorf("%s=%s: %s, want %s", name, value, got, want)
				}
			})
			seen[want] = true
		}
		if len(seen) < 2 {
			t.Errorf("%s: every value has the same effect", name)
		}
	}
}
