//go:build unix

package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tidegate/internal/testing/built"
)

var (
	binary  string // of the check function
	results table
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv("FAULTS") == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "bootstrap")
	function := map[string]string{"bootstrap": "tidegate/functions/check"}
	if err := built.Link(context.Background(), dir, function); err != nil {
		panic(err)
	}
	code := m.Run()
	results.write()
	return code
}

// skipUnlessFaults skips a test unless FAULTS is set.
func skipUnlessFaults(t *testing.T) {
	t.Helper()
	if os.Getenv("FAULTS") == "" {
		t.Skip("the fault suite takes minutes: ./scripts/test -faults runs it")
	}
}

// table collects the rows of all tests.
type table struct {
	mu   sync.Mutex
	rows []row
}

type row struct{ fault, bound, measured, met string }

// report adds a row and logs it.
func report(t *testing.T, fault, bound, measured string) {
	t.Helper()
	r := row{fault, bound, measured, "yes"}
	if t.Failed() {
		r.met = "**no**"
	}
	t.Logf("%s: %s (promised: %s)", fault, measured, bound)
	results.mu.Lock()
	defer results.mu.Unlock()
	results.rows = append(results.rows, r)
}

// gap adds a row for a promise that the product is known not to keep, and logs it.
func gap(t *testing.T, fault, bound, measured string) {
	t.Helper()
	t.Logf("%s: %s (a gap: %s)", fault, measured, bound)
	results.mu.Lock()
	defer results.mu.Unlock()
	results.rows = append(results.rows, row{fault, bound, measured, "**no**"})
}

// write prints the rows as a Markdown table, and writes them to the file of FAULTS_TABLE.
func (t *table) write() {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortFunc(t.rows, func(a, b row) int { return strings.Compare(a.fault, b.fault) })
	var out strings.Builder
	out.WriteString("| fault | promised | measured | met |\n|---|---|---|---|\n")
	for _, r := range t.rows {
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", r.fault, r.bound, r.measured, r.met)
	}
	if name := os.Getenv("FAULTS_TABLE"); name != "" {
		if err := os.WriteFile(name, []byte(out.String()), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	fmt.Print(out.String())
}
