package repocheck

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"unicode/utf8"
)

// rule returns its violations, each as "path: what is wrong".
type rule func(tree) []string

var rules = map[string]rule{
	"prose is narrow":   proseIsNarrow,
	"links work":        linksWork,
	"commands exist":    commandsExist,
	"named paths exist": namedPathsExist,
	"named tests exist": namedTestsExist,
}

func TestRepository(t *testing.T) {
	files := load(t)
	if files["go.mod"] == "" || len(files.pages()) < 5 {
		t.Fatalf("found go.mod: %t and %d pages", files["go.mod"] != "", len(files.pages()))
	}
	for name, broken := range rules {
		t.Run(name, func(t *testing.T) {
			for _, violation := range broken(files) {
				t.Error(violation)
			}
		})
	}
}

// Every rule finds the violations of its cases, and has a case with one.
func TestRulesFindViolations(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range cases {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			got := rules[c.rule](c.files)
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("got %q, want %q…", got[i], want)
				}
			}
		})
		tested[c.rule] = tested[c.rule] || len(c.want) > 0
	}
	for name := range rules {
		if !tested[name] {
			t.Errorf("the rule %q has no case with a violation", name)
		}
	}
}

// tree maps the path of each text file of a repository to its text.
type tree map[string]string

// skipped has the folders that git ignores, or that contain programs which tests build.
var skipped = map[string]bool{".git": true, "build": true, "node_modules": true, "dist": true,
	"testdata": true, "cdk.out": true}

// load reads the repository.
func load(t *testing.T) tree {
	t.Helper()
	root := os.DirFS("../..")
	files := tree{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped[entry.Name()]:
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := fs.ReadFile(root, name)
		if utf8.Valid(content) && bytes.IndexByte(content, 0) < 0 {
			files[name] = string(content)
		}
		return err
	})
	if err != nil {
		t.Fatalf("read the repository: %v", err)
	}
	return files
}

// paths returns the paths of all files and folders.
func (t tree) paths() map[string]bool {
	exists := map[string]bool{".": true}
	for name := range t {
		for ; name != "."; name = path.Dir(name) {
			exists[name] = true
		}
	}
	return exists
}
