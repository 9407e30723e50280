//go:build unix

package attacks

import (
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// document has the table of attacks.
const document = "attacks.md"

// startLimit bounds the start of the installation. Building the functions takes most of
// it.
const startLimit = 5 * time.Minute

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	code := m.Run()
	if err := writeTable(os.Getenv("ATTACKS_TABLE")); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	for _, leak := range shared.end() {
		_, _ = fmt.Fprintln(os.Stderr, leak)
		code = 1
	}
	return code
}

// shared is the installation of all tests. It starts when the first test needs it. A test
// that runs again, with -count, gets a new one, since attacks leave routes and denials.
var shared suite

type suite struct {
	installation *installation
	err          error           // of its start
	served       map[string]bool // tests by name; nil before the start
}

// serve returns the installation to a test.
func (s *suite) serve(t *testing.T) (*installation, error) {
	t.Helper()
	if s.served[t.Name()] {
		for _, leak := range s.end() {
			t.Error(leak)
		}
	}
	if s.served == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startLimit)
		defer cancel()
		s.served = map[string]bool{}
		s.installation, s.err = install(ctx)
	}
	s.served[t.Name()] = true
	return s.installation, s.err
}

// end stops the installation, if any, and returns the secrets in its log.
func (s *suite) end() []string {
	i := s.installation
	*s = suite{}
	if i == nil {
		return nil
	}
	i.close()
	return i.leaks()
}

// attempt is one attack: a row of the table. It counts the attack's probes.
type attempt struct {
	t             *testing.T
	attack, tried string
	probes        atomic.Int64
}

// attack begins a row of the table. After the test its row must be in the document.
func attack(t *testing.T, name, tried string) (*attempt, *installation) {
	t.Helper()
	a := &attempt{t: t, attack: name, tried: tried}
	t.Cleanup(a.finish)
	return a, installed(t)
}

// probe counts one attempt.
func (a *attempt) probe() { a.probes.Add(1) }

func (a *attempt) finish() {
	if a.t.Failed() || a.t.Skipped() {
		return
	}
	a.t.Logf("%d probes held", a.probes.Load())
	line := a.line()
	rows.Lock()
	rows.lines = append(rows.lines, line)
	rows.Unlock()
	partly := strings.Contains(flag.Lookup("test.run").Value.String(), "/")
	if os.Getenv("ATTACKS_TABLE") != "" || partly {
		return
	}
	if !slices.Contains(documented(a.t), line) {
		a.t.Errorf("%s does not have this row, which ATTACKS_TABLE=FILE writes:\n%s", document, line)
	}
}

func (a *attempt) line() string {
	return fmt.Sprintf("| %s | %s | %d | held | %#q |", a.attack, a.tried, a.probes.Load(), a.t.Name())
}

var rows struct {
	sync.Mutex
	lines []string
}

const tableHead = "| attack | what is tried | probes | result | test |\n|---|---|---|---|---|\n"

func writeTable(name string) error {
	if name == "" {
		return nil
	}
	rows.Lock()
	defer rows.Unlock()
	slices.Sort(rows.lines)
	text := tableHead + strings.Join(slices.Compact(rows.lines), "\n") + "\n"
	return os.WriteFile(name, []byte(text), 0o600)
}

// documented returns the rows of the document.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), tableHead)
	if !found {
		t.Fatalf("%s has no table of attacks", document)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	return strings.Split(strings.TrimSpace(table), "\n")
}

// The document lists all attacks of the suite and no others.
func TestDocumentListsTheAttacks(t *testing.T) {
	var listed []string
	for _, line := range documented(t) {
		fields := strings.Split(strings.Trim(line, "| "), " | ")
		if len(fields) != 5 {
			t.Fatalf("a row has %d cells: %s", len(fields), line)
		}
		listed = append(listed, strings.Trim(fields[4], "`"))
	}
	declared := attacks(t)
	slices.Sort(listed)
	slices.Sort(declared)
	if !slices.Equal(listed, declared) {
		t.Errorf("the document lists\n%s\nthe suite has\n%s", strings.Join(listed, "\n"),
			strings.Join(declared, "\n"))
	}
}

// attacks names the tests of this package that are rows.
func attacks(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "TestAttack") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
