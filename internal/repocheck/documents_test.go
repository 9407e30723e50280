package repocheck

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pages returns the sorted paths of the Markdown files of the root and of docs.
func (t tree) pages() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(t)), func(name string) bool {
		return path.Ext(name) != ".md" || path.Dir(name) != "." && path.Dir(name) != "docs"
	})
}

// maxProse is the width of prose in columns.
const maxProse = 90

// prose calls do with each line of text in a page. It skips code, tables, pictures, and
// generated text between a pair of comments.
func prose(text string, do func(number int, line string)) {
	fenced, generated, blank, indented, number := false, false, true, false, 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fenced = !fenced
		case fenced:
		case strings.HasPrefix(trimmed, "<!--"):
			generated = strings.Contains(trimmed, ":begin")
		case generated, strings.HasPrefix(trimmed, "|"), strings.HasPrefix(trimmed, "!["):
		case strings.HasPrefix(line, "    ") && (blank || indented):
			indented = true
			blank = false
			continue
		default:
			do(number, line)
		}
		blank, indented = trimmed == "", indented && trimmed == ""
	}
}

// proseIsNarrow requires text to wrap at maxProse columns, unless a line is one word.
func proseIsNarrow(files tree) []string {
	var broken []string
	for _, page := range files.pages() {
		prose(files[page], func(number int, line string) {
			if width := utf8.RuneCountInString(line); width > maxProse &&
				strings.Contains(strings.TrimLeft(line, " -"), " ") {
				broken = append(broken, fmt.Sprintf("%s: line %d has %d columns, at most %d", page, number,
					width, maxProse))
			}
		})
	}
	return broken
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// linksWork requires that links to files of the repository and to headings work.
func linksWork(files tree) []string {
	headings := map[string]map[string]bool{}
	exists := files.paths()
	for _, page := range files.pages() {
		headings[page] = anchors(files[page])
	}
	var broken []string
	for _, page := range files.pages() {
		for _, found := range link.FindAllStringSubmatch(files[page], -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") || path.Ext(target) == ".png" { // pictures are no text files
				continue
			}
			name := page
			if target != "" {
				name = path.Join(path.Dir(page), target)
			}
			switch {
			case !exists[name]:
				broken = append(broken, fmt.Sprintf("%s: %s links to no file", page, found[1]))
			case anchor != "" && !headings[name][anchor]:
				broken = append(broken, fmt.Sprintf("%s: %s links to no heading", page, found[1]))
			}
		}
	}
	return broken
}

var namedPath = regexp.MustCompile("`((?:functions|infra|internal|local|scripts|web)/[\\w./-]+)`")

// namedPathsExist requires that a file or folder named in a page exists.
func namedPathsExist(files tree) []string {
	exists := files.paths()
	var broken []string
	for _, page := range files.pages() {
		for _, found := range namedPath.FindAllStringSubmatch(files[page], -1) {
			if name := strings.TrimSuffix(found[1], "/"); !exists[name] {
				broken = append(broken, fmt.Sprintf("%s: there is no %s", page, name))
			}
		}
	}
	return broken
}

var (
	scriptCall = regexp.MustCompile("(\\./scripts/[a-z-]+|\\.ci/run)((?:[ \t]+[^ \t\n`|#&]+)*)")
	goCall     = regexp.MustCompile("\\bgo (?:test|generate|vet) (\\./[^ \\t\\n`]*)")
	scriptFlag = regexp.MustCompile(`^--?[a-z][a-z-]*`)
)

// commandsExist requires that scripts in commands on a page exist, and that their -h
// names the flags used. Folders in go commands must exist too.
func commandsExist(files tree) []string {
	exists := files.paths()
	var broken []string
	for _, page := range files.pages() {
		for _, call := range scriptCall.FindAllStringSubmatch(files[page], -1) {
			script, found := files[strings.TrimPrefix(call[1], "./")]
			if !found {
				broken = append(broken, fmt.Sprintf("%s: there is no %s", page, call[1]))
				continue
			}
			header, _, _ := strings.Cut(script, "\n\n")
			for _, word := range strings.Fields(call[2]) {
				if flag := scriptFlag.FindString(word); flag != "" && !hasWord(header, flag) {
					broken = append(broken, fmt.Sprintf("%s: the -h of %s has no %s", page, call[1], flag))
				}
			}
		}
		for _, call := range goCall.FindAllStringSubmatch(files[page], -1) {
			if !exists[path.Clean(strings.TrimSuffix(call[1], "..."))] {
				broken = append(broken, fmt.Sprintf("%s: go has no %s", page, call[1]))
			}
		}
	}
	return broken
}

// hasWord reports whether the text contains a flag as a whole word.
func hasWord(text, flag string) bool {
	return regexp.MustCompile(`(?:^|[^a-zA-Z0-9-])` + regexp.QuoteMeta(flag) +
		`(?:[^a-zA-Z0-9-]|$)`).MatchString(text)
}

// anchors returns the anchors that GitHub makes of a page's headings.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	prose(text, func(_ int, line string) {
		heading := strings.TrimLeft(line, "#")
		if heading == line {
			return
		}
		names[strings.Map(func(c rune) rune {
			switch {
			case c == ' ':
				return '-'
			case unicode.IsLetter(c), unicode.IsDigit(c), c == '-', c == '_':
				return unicode.ToLower(c)
			}
			return -1
		}, strings.TrimSpace(heading))] = true
	})
	return names
}

var (
	testName     = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*\b`)
	declaredTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
)

// namedTestsExist requires that a test named in a page exists.
func namedTestsExist(files tree) []string {
	declared := map[string]bool{}
	for name, text := range files {
		if strings.HasSuffix(name, "_test.go") {
			for _, found := range declaredTest.FindAllStringSubmatch(text, -1) {
				declared[found[1]] = true
			}
		}
	}
	var broken []string
	for _, page := range files.pages() {
		for _, name := range testName.FindAllString(files[page], -1) {
			if !declared[name] {
				broken = append(broken, fmt.Sprintf("%s: there is no test %s", page, name))
			}
		}
	}
	return broken
}

// cases have trees, and the beginnings of the violations that a rule finds in them.
var cases = []struct {
	rule, name string
	files      tree
	want       []string
}{
	{
		"prose is narrow", "text", tree{"docs/a.md": "ok\n\n- " + strings.Repeat("word ", 20) + "\n"},
		[]string{"docs/a.md: line 3 has 102 columns"},
	},
	{
		"prose is narrow", "code, tables, generated text",
		tree{"docs/a.md": "| " + strings.Repeat("word ", 20) + "|\n\n" +
			"    " + strings.Repeat("code ", 20) + "\n    " + strings.Repeat("code ", 20) + "\n\n```go\n" +
			strings.Repeat("code ", 20) +
			"\n```\n<!-- a:begin -->\n" + strings.Repeat("made ", 20) + "\n<!-- a:end -->\n" +
			strings.Repeat("w", 100) + "\n"}, nil,
	},
	{
		"links work", "broken", tree{
			"README.md": "[a](docs/a.md#one) [b](docs/b.md) [c](#two)\n",
			"docs/a.md": "# Two\n\n    # One\n\n[r](../README.md#two)\n",
		}, []string{
			"README.md: docs/a.md#one links to no heading", "README.md: docs/b.md links to no file",
			"README.md: #two links to no heading",
			"docs/a.md: ../README.md#two links to no heading",
		},
	},
	{
		"links work", "good", tree{
			"README.md": "# One, two\n\n[a](docs/a.md#what-aces-see) [b](docs) [c](#one-two) " +
				"[d](https://example.com/x#y)\n",
			"docs/a.md": "## What `ACE`s see?\n",
		}, nil,
	},
	{
		"commands exist", "missing", tree{
			"docs/a.md": "`./scripts/none`, `./scripts/one -b 1 -bad -v`\n\n    $ go test ./gone -run " +
				"X\n    $ go test ./here/... ./gone\n",
			"scripts/one": "#!/bin/sh\n# Does one thing.\n#   -b N   -verbose\n\n# -v is below the header\n",
			"here/a.go":   "package here\n",
		}, []string{
			"docs/a.md: there is no ./scripts/none", "docs/a.md: the -h of ./scripts/one has no -bad",
			"docs/a.md: the -h of ./scripts/one has no -v",
			"docs/a.md: go has no ./gone",
		},
	},
	{
		"commands exist", "good", tree{
			"README.md":   "    $ ./scripts/one -b 1   # -c\n    $ ./scripts/one | grep -d\n",
			"scripts/one": "#!/bin/sh\n#   -b N\n\ntrue\n",
		}, nil,
	},
	{
		"named paths exist", "missing", tree{"README.md": "`local/a` `local/b/` `web/c.go`\n",
			"local/b/b.go": "package b\n"},
		[]string{"README.md: there is no local/a", "README.md: there is no web/c.go"},
	},
	{
		"named tests exist", "missing", tree{
			"docs/a.md":   "held by `TestGone` and `FuzzThere`, Testing, Tests, a Test\n",
			"b/b_test.go": "package b\n\nfunc FuzzThere(f *testing.F) {}\n",
		}, []string{"docs/a.md: there is no test TestGone"},
	},
}
