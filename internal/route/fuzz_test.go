package route

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// FuzzFind checks that nothing panics, that Find agrees with an independent naive search,
// and that equivalent spellings of a path find the same pattern.
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
		patterns := validUnique(rules)
		table, err := NewTable(patterns)
		if err != nil {
			t.Fatalf("%q: %v", rules, err)
		}
		index, ok, err := table.Find(call)
		wantIndex, wantOK, wantErr := naive(patterns, call)
		if index != wantIndex || ok != wantOK || !errors.Is(err, wantErr) {
			t.Fatalf("%q of %q: got %d, %t, %v, want %d, %t, %v", call, rules, index, ok, err, wantIndex,
				wantOK, wantErr)
		}
		checkExplain(t, table, call, index, ok)
		for _, spelling := range respell(path) {
			other := call
			other.Path = spelling
			if i, o, e := table.Find(other); i != index || o != ok || !errors.Is(e, err) {
				t.Fatalf("%q finds %d, %t, %v, but %q finds %d, %t, %v in %q", path, index, ok, err, spelling,
					i, o, e, rules)
			}
		}
	})
}

// checkExplain requires that the first match of Explain, and no other, won, and that it
// is the pattern that Find found.
func checkExplain(t *testing.T, table *Table, call Call, index int, ok bool) {
	for i, m := range table.Explain(call) {
		if m.Won != (ok && i == 0) || m.Won && m.Index != index || m.Reason == "" {
			t.Fatalf("%q: match %d is %+v, but Find returned %d, %t", call, i, m, index, ok)
		}
	}
}

// validUnique parses one pattern per line. It leaves out invalid patterns and those that
// tie with an earlier one.
func validUnique(rules string) []Pattern {
	var patterns []Pattern
	for line := range strings.Lines(rules) {
		if p, err := Parse(line); err == nil {
			if extended := append(slices.Clone(patterns), p); len(Ties(extended)) == 0 {
				patterns = extended
			}
		}
	}
	return patterns
}

// respell returns spellings of a path that all programs read alike.
func respell(path string) []string {
	spellings := []string{"/" + path, path + "/", path + "//", strings.ReplaceAll(path, "/", "///")}
	if strings.Contains(path, "%") {
		return spellings
	}
	encoded := ""
	for i := range len(path) {
		if c := path[i]; c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 0x80 {
			encoded += fmt.Sprintf("%%%02x", c)
		} else {
			encoded += string([]byte{c})
		}
	}
	return append(spellings, encoded, strings.ToUpper(encoded))
}

var (
	encoding  = regexp.MustCompile(`%[0-9a-fA-F]{2}`)
	slashes   = regexp.MustCompile(`[/\\]+`)
	parameter = regexp.MustCompile(`^\{[^}]*[^}+]\}$`)
)

func unescape(text string) string {
	return encoding.ReplaceAllStringFunc(text, func(e string) string {
		var c byte
		_, _ = fmt.Sscanf(e, "%%%02x", &c)
		return string([]byte{c})
	})
}

// naiveReadings returns the two readings of a path: as written, and as a lenient program
// reads it.
func naiveReadings(p string) (written, lenient []string) {
	for text := range strings.SplitSeq(p, "/") {
		if text != "" {
			written = append(written, string(lowerBytes([]byte(unescape(text)))))
		}
	}
	for unescape(p) != p {
		p = unescape(p)
	}
	segments := slashes.Split(p, -1)
	for i, text := range segments {
		segments[i] = strings.SplitN(text, ";", 2)[0]
	}
	for text := range strings.SplitSeq(path.Clean("/"+strings.Join(segments, "/")), "/") {
		if text != "" {
			lenient = append(lenient, string(lowerBytes([]byte(text))))
		}
	}
	return written, lenient
}

// naive is a simple Find: it tries every pattern, and picks the match with the highest
// score.
func naive(patterns []Pattern, c Call) (index int, ok bool, err error) {
	written, lenient := naiveReadings(c.Path)
	a, b := naiveBest(patterns, c, written), naiveBest(patterns, c, lenient)
	switch {
	case a != b:
		return 0, false, ErrAmbiguous
	case a < 0:
		return 0, false, nil
	}
	return a, true, nil
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
