package route

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// FuzzFind checks that nothing panics, that what Find does not refuse agrees with an
// independent naive search, and that equivalent spellings of a path find the same patterns.
func FuzzFind(f *testing.F) {
	f.Add("*\nGET /orders/{id}\n/orders/mine\n/orders/{x+}", "a1", "prod", "GET", "/orders/mine")
	f.Add("/a/{x}\n/{x}/a\n/a/a\n/*\n/", "", "", "", "/a%2Fa")
	f.Add("a1/prod * /a\n*/prod /a\nGET /a\n/a", "a1", "prod", "PUT", "//A/./")
	f.Add("HEAD *\n*/s GET /r\nHEAD /r\nGET /r\nANY /r\n/r", "", "s", "HEAD", "/r")
	f.Add("get /r/{x}\nany /r/a\n/r/{x}", "", "", "head", "/r/a")
	f.Add("/x/{y+}\n/x/{y}\n/x/y", "", "", "", "/x/%2579;p/../y")
	for _, refused := range []string{"a1//x", "/a/../b", "/a%2Fb", "/{x}/{x}", "/{}", "/a/b{c}", "/{x+}/a",
		"/\x01", "a-1/prod GET /", strings.Repeat("m", MaxMethodLen+1) + " /",
		"/" + strings.Repeat("a/", MaxSegments+1) + "b", "/" + strings.Repeat("a", MaxPathLen)} {
		f.Add(refused, "", "", "", "/a/b")
	}
	f.Add("/a/{x}\n/a/b", "", "", "", "/a/%2e%2e/a/b")
	f.Add("/x/y", "", "", "", "/x")
	f.Add("/a/*\n/b", "", "", "", "/a/..%2Fb")
	f.Fuzz(func(t *testing.T, rules, api, stage, method, path string) {
		call := Call{API: api, Stage: stage, Method: method, Path: path}
		patterns := valid(rules)
		index, err := NewIndex(patterns)
		if err != nil {
			t.Fatalf("%q: %v", rules, err)
		}
		found, err := index.Find(call)
		if err == nil {
			if want := naiveBest(patterns, call, naiveReading(call.Path)); want < 0 != (len(found) == 0) ||
				want >= 0 &&
					score(patterns[found[0].Index]) != score(patterns[want]) {
				t.Fatalf("%q of %q: got %v, want %d first", call, rules, found, want)
			}
		}
		for _, spelling := range respell(path) {
			other := call
			other.Path = spelling
			again, e := index.Find(other)
			if (err == nil) != (e == nil) || len(again) != len(found) || len(found) > 0 &&
				again[0].Index != found[0].Index {
				t.Fatalf("%q finds %v, %v, but %q finds %v, %v in %q", path, found, err, spelling, again, e,
					rules)
			}
		}
	})
}

// valid parses one pattern per line, and leaves out invalid ones.
func valid(rules string) []Pattern {
	var patterns []Pattern
	for line := range strings.Lines(rules) {
		if p, err := Parse(line); err == nil {
			patterns = append(patterns, p)
		}
	}
	return patterns
}

// respell returns spellings of a path that all programs read alike.
func respell(path string) []string {
	if strings.Contains(path, "%") {
		return nil
	}
	encoded := ""
	for i := range len(path) {
		if c := path[i]; c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 0x80 {
			encoded += fmt.Sprintf("%%%02x", c)
		} else {
			encoded += string([]byte{c})
		}
	}
	return []string{encoded, strings.ToUpper(encoded)}
}

var (
	encoding  = regexp.MustCompile(`%[0-9a-fA-F]{2}`)
	parameter = regexp.MustCompile(`^\{[^}]*[^}+]\}$`)
)

func unescape(text string) string {
	return encoding.ReplaceAllStringFunc(text, func(e string) string {
		var c byte
		_, _ = fmt.Sscanf(e, "%%%02x", &c)
		return string([]byte{c})
	})
}

// naiveReading returns the segments of a path as written.
func naiveReading(p string) (written []string) {
	for text := range strings.SplitSeq(p, "/") {
		if text != "" {
			written = append(written, string(lowerBytes([]byte(unescape(text)))))
		}
	}
	return written
}

// naiveBest returns the index of the best pattern for one reading of a path, or -1.
func naiveBest(patterns []Pattern, c Call, segments []string) int {
	var matching []int
	for i, p := range patterns {
		method := slices.ContainsFunc(naiveMethods(c.Method), func(m string) bool {
			return strings.EqualFold(m, p.Method)
		})
		if method && wild(p.API, c.API) && wild(p.Stage, c.Stage) && naiveMatch(p.Path, segments) {
			matching = append(matching, i)
		}
	}
	if len(matching) == 0 {
		return -1
	}
	return slices.MaxFunc(matching, func(a, b int) int {
		return cmp.Compare(score(patterns[a]), score(patterns[b]))
	})
}

// naiveMethods lists the methods of patterns that match a call with this method.
func naiveMethods(method string) []string {
	methods := []string{"", "*", "ANY", strings.ToUpper(method)}
	if strings.EqualFold(method, "HEAD") {
		methods = append(methods, "GET")
	}
	return methods
}

func wild(pattern, value string) bool { return pattern == "" || pattern == "*" || pattern == value }

func naiveMatch(p string, segments []string) bool {
	if p == "" || p == "*" {
		return true
	}
	p = strings.Trim(p, "/")
	if p == "" || len(segments) == 0 {
		return p == "" && len(segments) == 0
	}
	head, tail, _ := strings.Cut(p, "/")
	switch {
	case head == "*" || strings.HasSuffix(head, "+}"):
		return true
	case !parameter.MatchString(head) && string(lowerBytes([]byte(unescape(head)))) != segments[0]:
		return false
	}
	return naiveMatch("/"+tail, segments[1:])
}

// score returns a text that sorts as patterns do: more specific is greater.
func score(p Pattern) string {
	path := "z"
	for text := range strings.SplitSeq(strings.Trim(p.Path, "/"), "/") {
		switch {
		case p.Path == "" || p.Path == "*":
			path = "a"
		case text == "":
		case text == "*" || strings.HasSuffix(text, "+}"):
			path = path[:len(path)-1] + "b"
		case parameter.MatchString(text):
			path = path[:len(path)-1] + "cz"
		default:
			path = path[:len(path)-1] + "dz"
		}
	}
	method := map[string]string{"": "0", "*": "0", "ANY": "1", "HEAD": "3"}[strings.ToUpper(p.Method)]
	return flag(p.API) + path + " " + cmp.Or(method, "2") + flag(p.Stage)
}

func flag(field string) string {
	if field == "" || field == "*" {
		return "0"
	}
	return "1"
}
