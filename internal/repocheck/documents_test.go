package repocheck

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxReadme = 10 << 10 // bytes
	maxProse  = 90       // columns
)

// readmeIsShort bounds the size of README.md. Longer texts are pages in docs.
func readmeIsShort(r repository) []string {
	readme, ok := r.find("README.md")
	if !ok {
		return nil
	}
	if size := len(readme.text); size > maxReadme {
		return []string{fmt.Sprintf("README.md: %d bytes, at most %d", size, maxReadme)}
	}
	return nil
}

// pages returns the Markdown files of the root and of docs.
func pages(r repository) []file {
	var all []file
	for _, f := range r.files {
		if path.Ext(f.path) == ".md" && (path.Dir(f.path) == "." || path.Dir(f.path) == "docs") {
			all = append(all, f)
		}
	}
	return all
}

// prose calls do with each line of text in a page. It skips code, tables, pictures, and
// generated text between a pair of comments.
func prose(f file, do func(number int, line string)) {
	fenced, generated, blank, indented, number := false, false, true, false, 0
	for line := range strings.Lines(f.text) {
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
func proseIsNarrow(r repository) []string {
	var broken []string
	for _, f := range pages(r) {
		prose(f, func(number int, line string) {
			if width := utf8.RuneCountInString(line); width > maxProse &&
				strings.Contains(strings.TrimLeft(line, " -"), " ") {
				broken = append(broken, fmt.Sprintf("%s: line %d has %d columns, at most %d", f.path, number,
					width, maxProse))
			}
		})
	}
	return broken
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// linksWork requires that links to files of the repository and to headings work.
func linksWork(r repository) []string {
	headings := map[string]map[string]bool{}
	exists := r.paths()
	for _, f := range pages(r) {
		headings[f.path] = anchors(f)
	}
	var broken []string
	for _, f := range pages(r) {
		for _, found := range link.FindAllStringSubmatch(f.text, -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") || path.Ext(target) == ".png" { // pictures are no text files
				continue
			}
			name := f.path
			if target != "" {
				name = path.Join(path.Dir(f.path), target)
			}
			page, isPage := headings[name]
			switch {
			case !exists[name]:
				broken = append(broken, fmt.Sprintf("%s: %s links to no file", f.path, found[1]))
			case anchor != "" && (!isPage || !page[anchor]):
				broken = append(broken, fmt.Sprintf("%s: %s links to no heading", f.path, found[1]))
			}
		}
	}
	return broken
}

// paths returns the paths of all files and folders.
func (r repository) paths() map[string]bool {
	exists := map[string]bool{".": true}
	for _, f := range r.files {
		for name := f.path; name != "."; name = path.Dir(name) {
			exists[name] = true
		}
	}
	return exists
}

var namedPath = regexp.MustCompile("`((?:functions|infra|internal|local|scripts|web)/[\\w./-]+)`")

// namedPathsExist requires that a file or folder named in a page exists.
func namedPathsExist(r repository) []string {
	exists := r.paths()
	var broken []string
	for _, f := range pages(r) {
		for _, found := range namedPath.FindAllStringSubmatch(f.text, -1) {
			if name := strings.TrimSuffix(found[1], "/"); !exists[name] {
				broken = append(broken, fmt.Sprintf("%s: there is no %s", f.path, name))
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
func commandsExist(r repository) []string {
	var broken []string
	for _, f := range pages(r) {
		for _, call := range scriptCall.FindAllStringSubmatch(f.text, -1) {
			script, found := r.find(strings.TrimPrefix(call[1], "./"))
			if !found {
				broken = append(broken, fmt.Sprintf("%s: there is no %s", f.path, call[1]))
				continue
			}
			header, _, _ := strings.Cut(script.text, "\n\n")
			for _, word := range strings.Fields(call[2]) {
				if flag := scriptFlag.FindString(word); flag != "" && !hasWord(header, flag) {
					broken = append(broken, fmt.Sprintf("%s: the -h of %s has no %s", f.path, call[1], flag))
				}
			}
		}
		for _, call := range goCall.FindAllStringSubmatch(f.text, -1) {
			folder := path.Clean(strings.TrimSuffix(call[1], "..."))
			if folder != "." && !slices.ContainsFunc(r.files, func(f file) bool {
				return strings.HasPrefix(f.path, folder+"/")
			}) {
				broken = append(broken, fmt.Sprintf("%s: go has no %s", f.path, call[1]))
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
func anchors(f file) map[string]bool {
	names := map[string]bool{}
	prose(f, func(_ int, line string) {
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

var documentCases = []ruleCase{
	{"README is short", "long", tree{"README.md": strings.Repeat("a\n", maxReadme/2+1)},
		[]string{"README.md: 10242 bytes"}},
	{"README is short", "a page", tree{"docs/a.md": strings.Repeat("a\n", maxReadme),
		"README.md": "short\n"}, nil},
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
}
