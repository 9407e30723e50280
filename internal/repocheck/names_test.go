package repocheck

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
)

var testName = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*\b`)

// namedTestsExist: a test that a document or a comment names as proof is there.
func namedTestsExist(r repository) []string {
	declared := map[string]bool{}
	for _, s := range r.sources {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				declared[f.Name.Name] = true
			}
		}
	}
	var broken []string
	look := func(file, text string) {
		for _, name := range testName.FindAllString(text, -1) {
			if !declared[name] {
				broken = append(broken, fmt.Sprintf("%s: no test is called %s", file, name))
			}
		}
	}
	for _, f := range r.files {
		if path.Ext(f.path) == ".md" && !strings.Contains(f.path, "testdata/") {
			look(f.path, f.text)
		}
	}
	for _, s := range r.sources {
		for _, c := range s.ast.Comments {
			look(s.path, c.Text())
		}
	}
	return broken
}

var nameCases = []ruleCase{
	{
		"named tests exist", "gone", tree{
			"docs/a.md":   "held by `Test" + "Gone` and `FuzzThere`\n",
			"b/b_test.go": "package b\n\n// Like Test" + "Moved.\nfunc FuzzThere() {}\n",
		}, []string{"docs/a.md: no test is called TestGone", "b/b_test.go: no test is called TestMoved"},
	},
	{
		"named tests exist", "other words",
		tree{"a.md": "Testing, Tests, a Test of Fuzzing, test.TestX\n",
			"a_test.go": "package a\n\nfunc TestX() {}\n"}, nil,
	},
}
