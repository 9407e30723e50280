package repocheck

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var luaAssignment = regexp.MustCompile(`(?:^|\b(?:then|else|do)\b)\s*([\w.]+(?:, [\w.]+)+) = ([^=].*)`)

// luaAssignsApart: no assignment to several variables reads one of them for another. The
// embedded server assigns the first before it reads the rest
// (https://github.com/yuin/gopher-lua/issues/440).
func luaAssignsApart(r repository) []string {
	var broken []string
	for _, f := range r.files {
		if path.Ext(f.path) != ".lua" {
			continue
		}
		number := 0
		for line := range strings.Lines(f.text) {
			number++
			code, _, _ := strings.Cut(line, "--")
			parts := luaAssignment.FindStringSubmatch(code)
			if parts == nil {
				continue
			}
			names := strings.Split(parts[1], ", ")
			for i, value := range luaValues(parts[2]) {
				for j, name := range names {
					if i != j && luaReads(value, name) {
						broken = append(broken, fmt.Sprintf("%s: line %d assigns %s and reads it: %.100q",
							f.path, number, name, strings.TrimSpace(line)))
					}
				}
			}
		}
	}
	return broken
}

// luaValues splits the right side of an assignment at its commas. One call that returns
// several values has read its arguments before, and counts as none.
func luaValues(text string) []string {
	var values []string
	depth, start := 0, 0
	for i, c := range text {
		switch {
		case strings.ContainsRune("({[", c):
			depth++
		case strings.ContainsRune(")}]", c):
			depth--
		case c == ',' && depth == 0:
			values = append(values, text[start:i])
			start = i + 1
		}
	}
	if values == nil {
		return nil
	}
	return append(values, text[start:])
}

func luaReads(value, name string) bool {
	return regexp.MustCompile(`(^|[^\w.])` + regexp.QuoteMeta(name) + `($|\W)`).MatchString(value)
}

var luaCases = []ruleCase{
	{"Lua assigns apart", "a swap, alone and in a branch", tree{
		"a.lua": "local a, b = 1, 2\na, b = b, a\n",
		"b.lua": "if x then from, to = from - span(day, 1) * day, from end\n",
		"c.lua": "at, v.part = at + v.part, 0 -- at\n",
	}, []string{
		"a.lua: line 2 assigns b", "a.lua: line 2 assigns a", "b.lua: line 1 assigns from",
		"c.lua: line 1 assigns v.part",
	}},
	{"Lua assigns apart", "each reads itself only, or one call reads all", tree{
		"a.lua": "whole, part = whole + 1, part - span\nleft, rest = divide(rest, left)\n" +
			"if a == b then a, b = 1, 2 end\nv.part, part = 1, part\n",
		"a.go": "package a\n\nfunc f(a, b int) { a, b = b, a }\n",
	}, nil},
}
