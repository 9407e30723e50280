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

// Links of the pages to files and headings work, and the paths that pages name exist.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob(root + "/docs/*.md")
	more, _ := filepath.Glob(root + "/*.md") // the pattern is good
	if pages = append(pages, more...); err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	texts := map[string]string{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		texts[page] = string(text)
	}
	for page, text := range texts {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			if strings.Contains(target, "://") {
				continue
			}
			_, err := os.Stat(file)
			if err != nil || anchor != "" && !slices.Contains(anchors(texts[file]), anchor) {
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
