package repocheck

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// root is the repository's folder.
const root = "../.."

var (
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	namedPath = regexp.MustCompile("`((?:functions|infra|internal|local|scripts|web)/[\\w./-]+)`")
	namedTest = regexp.MustCompile(`\bTest[A-Z]\w+`)
	namedPage = regexp.MustCompile(`\b(?:docs|local/\w+)/[\w-]+\.md(?:#[\w-]+)?|\bCONTRIBUTING\.md`)
	declared  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// anchors returns the anchors that GitHub makes of a page's headings.
func anchors(page string) (names []string) {
	for _, found := range heading.FindAllStringSubmatch(page, -1) {
		names = append(names, strings.Map(func(c rune) rune {
			switch {
			case c == ' ':
				return '-'
			case unicode.IsLetter(c), unicode.IsDigit(c), c == '-', c == '_':
				return unicode.ToLower(c)
			}
			return -1
		}, found[1]))
	}
	return names
}

// pages returns the texts of all pages by their files.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"docs/*.md", "*.md", "local/*/*.md", "web/middleware/*.md"} {
		files, err := filepath.Glob(path.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
		}
	}
	return texts
}

// exists reports whether a link of a page leads to a file, and to a heading of a page.
func exists(texts map[string]string, page, link string) bool {
	target, anchor, _ := strings.Cut(link, "#")
	file := page
	if target != "" {
		file = path.Join(path.Dir(page), target)
	}
	_, err := os.Stat(file)
	return err == nil && (anchor == "" || slices.Contains(anchors(texts[file]), anchor))
}

// Links of the pages to files and headings work, and the paths that pages name exist.
func TestPages(t *testing.T) {
	texts := pages(t)
	for page, text := range texts {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(found[1], "://") && !exists(texts, page, found[1]) {
				t.Errorf("%s: %s links to nothing", page, found[1])
			}
		}
		for _, found := range namedPath.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(path.Join(root, found[1])); err != nil {
				t.Errorf("%s: there is no %s", page, found[1])
			}
		}
	}
}

// The README leads to every page of docs.
func TestReadmeHasAllPages(t *testing.T) {
	texts := pages(t)
	for file := range texts {
		name := strings.TrimPrefix(file, root+"/")
		if strings.HasPrefix(name, "docs/") && !strings.Contains(texts[root+"/README.md"], "("+name+")") {
			t.Errorf("README.md has no link to %s", name)
		}
	}
}

// source matches the files that may name a page or declare a test.
var source = regexp.MustCompile(`\.(go|templ|cjs|cts|ts|py|ya?ml|tf|toml|json|txt)$|^scripts/[\w-]+$`)

// sources calls do with each file of the repository that is source.
func sources(t *testing.T, do func(name, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, entry os.DirEntry, err error) error {
		name := strings.TrimPrefix(file, root+"/")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "node_modules", "build", "dist", "cdk.out"},
			entry.Name()):
			return filepath.SkipDir
		case !entry.Type().IsRegular() || !source.MatchString(name):
			return nil
		}
		text, err := os.ReadFile(file)
		do(name, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Pages that the code names exist, with their headings: in comments, help texts, errors and
// templates. So do the tests that pages name.
func TestNames(t *testing.T) {
	texts, tests := pages(t), map[string]bool{}
	sources(t, func(name, text string) {
		for _, found := range declared.FindAllStringSubmatch(text, -1) {
			tests[found[1]] = true
		}
		for _, found := range namedPage.FindAllString(text, -1) {
			if !exists(texts, root+"/README.md", found) {
				t.Errorf("%s: there is no %s", name, found)
			}
		}
	})
	for page, text := range texts {
		for _, name := range namedTest.FindAllString(text, -1) {
			if !tests[name] {
				t.Errorf("%s: there is no %s", page, name)
			}
		}
	}
}
