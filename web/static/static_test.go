package static

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Pages load files whose names have a hash of the content.
func TestLoad(t *testing.T) {
	b := Load()
	for _, name := range []string{b.Script, b.Chart, b.Style, b.Icon, b.Font} {
		content, found := b.File(name)
		hash := sha256.Sum256([]byte(content))
		if !found || !strings.Contains(name, "-"+hex.EncodeToString(hash[:6])+".") {
			t.Errorf("%s: found %v, content has hash %x", name, found, hash[:6])
		}
	}
	if content, found := b.File("app.js"); found {
		t.Errorf("a name without a hash has a file: %.40q", content)
	}
}

// Every script of the folder reaches browsers, whole but for its comments.
func TestEveryScriptIsLoaded(t *testing.T) {
	b := Load()
	names, err := fs.Glob(sources, "*.js")
	if err != nil || len(names) != len(scripts)+1 {
		t.Errorf("%d scripts, %d joined, %v", len(names), len(scripts)+1, err)
	}
	for _, name := range names {
		file, _ := b.File(b.Script)
		if name == "chart.js" {
			file, _ = b.File(b.Chart)
		} else if !slices.Contains(scripts, name) {
			t.Errorf("%s is not joined", name)
		}
		for line := range strings.Lines(source(name)) {
			comment := strings.HasPrefix(strings.TrimSpace(line), "//")
			if comment == strings.Contains(file, line) && strings.TrimSpace(line) != "" {
				t.Errorf("%s: comment %v, sent %v: %s", name, comment, !comment, line)
			}
		}
	}
}

func TestStyle(t *testing.T) {
	style, _ := Load().File(Load().Style)
	if strings.Contains(style, "*/") || !strings.HasPrefix(strings.TrimSpace(style), "@font-face {") ||
		!strings.Contains(style, `url("`+Load().Font+`")`) {
		t.Errorf("comments are left, or the font is not named: %.200q", style)
	}
	rules := regexp.MustCompile(`[{}]`)
	got, want := len(rules.FindAllString(style, -1)), len(rules.FindAllString(source("app.css"), -1))
	if got != want {
		t.Errorf("%d braces, want %d as in app.css", got, want)
	}
}

var (
	comments  = regexp.MustCompile(`(?s)/\*.*?\*/`)
	selector  = regexp.MustCompile(`([^{}]+)\{`)
	ofClass   = regexp.MustCompile(`\.([a-zA-Z][\w-]*)`)
	attribute = regexp.MustCompile(`class=(?:"([^"]*)"|\{([^}]*)\})`)
	literal   = regexp.MustCompile("\"([^\"\n]*)\"|'([^'\n]*)'|`([^`]*)`")
)

// Every class of the stylesheet is one that a template, a script or the text of a page
// names, and every class of a template is styled, or found by a script or a test.
func TestClasses(t *testing.T) {
	styled, given, named, found := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	css := comments.ReplaceAllString(source("app.css"), "")
	for _, rule := range selector.FindAllStringSubmatch(css, -1) {
		for _, class := range ofClass.FindAllStringSubmatch(rule[1], -1) {
			styled[class[1]] = true
		}
	}
	all := readAll(t, "*.js", "../templates/*.templ", "../templates/*.go", "../../functions/admin")
	for name, text := range all {
		for _, a := range attribute.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(a[1])
			for _, l := range literal.FindAllStringSubmatch(a[2], -1) {
				words = append(words, strings.Fields(l[1])...)
			}
			for _, class := range words {
				given[class] = strings.HasSuffix(name, ".templ") || given[class]
			}
		}
		for _, class := range ofClass.FindAllStringSubmatch(text, -1) {
			found[class[1]] = found[class[1]] || strings.HasSuffix(name, ".js") ||
				strings.HasSuffix(name, "_test.go")
		}
	}
	for name, text := range all {
		if strings.HasSuffix(name, "_templ.go") {
			continue
		}
		for _, l := range literal.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(l[1] + l[2] + l[3])
			known := func(word string) bool { return styled[word] || given[word] }
			for _, class := range words {
				unknown := slices.ContainsFunc(words, func(w string) bool { return !known(w) })
				named[class] = named[class] || !unknown
			}
		}
	}
	for class := range styled {
		library := class == "uplot" || strings.HasPrefix(class, "u-")
		if !library && !given[class] && !named[class] && !found[class] {
			t.Errorf("app.css styles .%s, which nothing has", class)
		}
	}
	for class := range given {
		if given[class] && !styled[class] && !found[class] {
			t.Errorf("a template has the class %s, which nothing styles or finds", class)
		}
	}
}

// readAll returns the files of patterns and of folders, which are those in Go.
func readAll(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	read := func(name string) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("no file %s, %v", pattern, err)
		}
		for _, name := range names {
			if filepath.Ext(name) != "" {
				read(name)
				continue
			}
			err := filepath.WalkDir(name, func(path string, _ fs.DirEntry, err error) error {
				if err == nil && strings.HasSuffix(path, ".go") {
					read(path)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// The libraries are the files of their npm packages, with their licences: nobody edited
// them, and nobody renewed them without libraries/update.
func TestLibraries(t *testing.T) {
	sums, err := os.Open("libraries/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	defer sums.Close()
	recorded := []string{"libraries/SHA256SUMS", "libraries/update"}
	for lines := bufio.NewScanner(sums); lines.Scan(); {
		want, name, _ := strings.Cut(lines.Text(), "  ")
		name = "libraries/" + name
		content, err := os.ReadFile(name)
		if sum := sha256.Sum256(content); err != nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has the checksum %x, want %s, %v: run web/static/libraries/update", name, sum, want,
				err)
		}
		recorded = append(recorded, name)
	}
	files, err := filepath.Glob("libraries/*")
	slices.Sort(recorded)
	if err != nil || !slices.Equal(files, recorded) {
		t.Errorf("got the files %v, %v, want %v", files, err, recorded)
	}
}
