package repocheck

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

// rule returns its violations, each as "path: what is wrong".
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
	"links work":               linksWork,
	"commands exist":           commandsExist,
	"Lua assigns apart":        luaAssignsApart,
	"named paths exist":        namedPathsExist,
}

func TestRepository(t *testing.T) {
	r := load(t, os.DirFS("../.."))
	if _, ok := r.find("go.mod"); !ok || len(r.sources) < 5 {
		t.Fatalf("found go.mod: %t and %d sources, want the whole repository", ok, len(r.sources))
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

// Every rule finds the violations of its cases, and has a case with one.
func TestRulesFindViolations(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range slices.Concat(packageCases, textCases, scriptCases, nameCases,
		documentCases, luaCases) {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			broken, ok := rules[c.rule]
			if !ok {
				t.Fatalf("there is no rule %q", c.rule)
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
			t.Errorf("the rule %q has no case with a violation", name)
		}
	}
}

// ruleCase is a tree and the beginnings of the violations that the rule finds in it.
type ruleCase struct {
	rule, name string
	tree       tree
	want       []string
}

// fs returns the tree as a file system. Files without an extension are executable, unless
// their path ends in a minus sign, which fs removes.
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

// file is one of the repository's text files.
type file struct {
	path string
	mode fs.FileMode
	text string
}

func (f file) lines() int { return strings.Count(f.text, "\n") }

// source is a Go file that is not generated.
type source struct {
	file
	ast *ast.File
}

// repository has the files that the rules read.
type repository struct {
	files   []file
	sources []source
}

func (r repository) find(path string) (file, bool) {
	for _, f := range r.files {
		if f.path == path {
			return f, true
		}
	}
	return file{}, false
}

// skipped has the folders that git ignores, or that contain programs which tests build.
var skipped = map[string]bool{".git": true, "build": true, "node_modules": true, "dist": true,
	"testdata": true, "cdk.out": true}

func load(t *testing.T, root fs.FS) repository {
	t.Helper()
	var r repository
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped[entry.Name()]:
			return fs.SkipDir
		case !entry.Type().IsRegular() || entry.Name() == ".git": // .git is a file in a linked work tree
			return nil
		}
		return add(&r, root, name, entry)
	})
	if err != nil {
		t.Fatalf("read the repository: %v", err)
	}
	return r
}

func add(r *repository, root fs.FS, name string, entry fs.DirEntry) error {
	content, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	if !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
		return nil
	}
	info, err := entry.Info()
	if err != nil {
		return err
	}
	f := file{path: name, mode: info.Mode(), text: string(content)}
	r.files = append(r.files, f)
	if path.Ext(name) != ".go" {
		return nil
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ParseComments)
	if err != nil {
		return err
	}
	if !ast.IsGenerated(parsed) {
		r.sources = append(r.sources, source{file: f, ast: parsed})
	}
	return nil
}
