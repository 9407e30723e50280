package repocheck

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// rule lists what breaks it, each as "path: what is wrong".
type rule func(repository) []string

var rules = map[string]rule{
	"one package comment":      onePackageComment,
	"package names are nouns":  packageNames,
	"tests are small":          testLength,
	"main only wires":          mainLength,
	"no path of one machine":   noMachinePaths,
	"no registry in lockfiles": noRegistryHosts,
	"scripts explain":          scriptsExplain,
	"named tests exist":        namedTestsExist,
	"README is short":          readmeIsShort,
	"prose is narrow":          proseIsNarrow,
	"links lead somewhere":     linksLead,
	"commands exist":           commandsExist,
	"Lua assigns apart":        luaAssignsApart,
	"named paths exist":        namedPathsExist,
}

func TestRepository(t *testing.T) {
	r := load(t, os.DirFS("../.."))
	if _, ok := r.find("go.mod"); !ok || len(r.sources) < 5 {
		t.Fatalf("this is not the repository: %d sources", len(r.sources))
	}
	for name, broken := range rules {
		t.Run(name, func(t *testing.T) {
			for _, violation := range broken(r) {
				t.Error(violation)
			}
		})
	}
}

// tree is a small repository: path to text.
type tree map[string]string

// A rule that cannot fail protects nothing.
func TestRulesFindWhatBreaksThem(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range slices.Concat(packageCases, textCases, scriptCases, nameCases,
		documentCases, luaCases) {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			broken, ok := rules[c.rule]
			if !ok {
				t.Fatalf("no rule is called %q", c.rule)
			}
			got := broken(load(t, c.tree.fs()))
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("got %q, want %q…", got[i], want)
				}
			}
		})
		if len(c.want) > 0 {
			tested[c.rule] = true
		}
	}
	for name := range rules {
		if !tested[name] {
			t.Errorf("no case breaks the rule %q", name)
		}
	}
}

// ruleCase is a tree and the beginning of each violation that the rule finds in it.
type ruleCase struct {
	rule, name string
	tree       tree
	want       []string
}

// fs makes files without an extension executable, as scripts are, except those whose path
// ends in a minus sign.
func (t tree) fs() fs.FS {
	files := fstest.MapFS{}
	for name, text := range t {
		mode := fs.FileMode(0o644)
		if !strings.Contains(name[strings.LastIndexByte(name, '/')+1:], ".") &&
			!strings.HasSuffix(name, "-") {
			mode = 0o755
		}
		files[strings.TrimSuffix(name, "-")] = &fstest.MapFile{Data: []byte(text), Mode: mode}
	}
	return files
}
