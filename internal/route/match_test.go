package route

import (
	"errors"
	"strings"
	"testing"
)

// find returns the most specific pattern that an index finds for a call, "none" or
// "ambiguous".
func find(t *testing.T, index *Index, c Call) string {
	t.Helper()
	found, err := index.Find(c)
	switch {
	case errors.Is(err, ErrAmbiguous):
		return "ambiguous"
	case err != nil:
		t.Fatal(err)
	case len(found) == 0:
		return "none"
	}
	for _, p := range index.patterns {
		if p.index == found[0].Index {
			return p.String()
		}
	}
	t.Fatalf("no pattern %d", found[0].Index)
	return ""
}

// The most specific pattern wins, in whatever order the patterns are given.
func TestMostSpecificWins(t *testing.T) {
	texts := []string{
		"*", "POST *", "/*", "/orders/{rest+}", "/orders/{id}", "GET /orders/{id}", "/orders/mine",
		"/{kind}/mine", "/{kind}/{id}/items", "/",
		"a1/* GET /orders/{id}", "*/dev GET /orders/{id}", "*/prod /orders/mine", "a1/* *",
		"/orders/{id}/items", "/orders/{id}/{part+}",
	}
	for _, c := range []struct {
		call Call
		want string
	}{
		{Call{Method: "GET", Path: "/"}, "* /"},
		{Call{Method: "GET", Path: ""}, "* /"},
		{Call{Method: "GET", Path: "/other"}, "* /*"},
		{Call{Method: "POST", Path: "/other"}, "* /*"},
		{Call{Method: "GET", Path: "/orders"}, "* /*"},
		{Call{Method: "PUT", Path: "/orders/7"}, "* /orders/{id}"},
		{Call{Method: "get", Path: "/orders/7"}, "GET /orders/{id}"},
		{Call{Stage: "dev", Method: "GET", Path: "/orders/7"}, "*/dev GET /orders/{id}"},
		{Call{Stage: "Dev", Method: "GET", Path: "/orders/7"}, "GET /orders/{id}"},
		{Call{Stage: TestStage, Method: "GET", Path: "/orders/7"}, "*/dev GET /orders/{id}"},
		{Call{API: "a1", Stage: "dev", Method: "GET", Path: "/orders/7"}, "a1/* GET /orders/{id}"},
		{Call{API: "a1", Stage: "dev", Method: "PUT", Path: "/orders/7"}, "a1/* * *"},
		{Call{Method: "GET", Path: "/orders/mine"}, "* /orders/mine"},
		{Call{Method: "GET", Path: "/Orders/MINE"}, "* /orders/mine"},
		{Call{Stage: "prod", Method: "GET", Path: "/orders/mine"}, "*/prod * /orders/mine"},
		{Call{Method: "GET", Path: "/other/mine"}, "* /{kind}/mine"},
		{Call{Method: "GET", Path: "/other/7/items"}, "* /{kind}/{id}/items"},
		{Call{Method: "GET", Path: "/orders/7/items"}, "* /orders/{id}/items"},
		{Call{Method: "GET", Path: "/orders/7/parts"}, "* /orders/{id}/{part+}"},
		{Call{Method: "GET", Path: "/orders/7/items/1"}, "* /orders/{id}/{part+}"},
	} {
		for _, order := range [][]string{texts, reversed(texts)} {
			if got := find(t, index(t, order...), c.call); got != c.want {
				t.Errorf("%+v: got %q, want %q", c.call, got, c.want)
			}
		}
	}
}

func reversed(texts []string) []string {
	var out []string
	for _, text := range texts {
		out = append([]string{text}, out...)
	}
	return out
}

func TestNothingMatches(t *testing.T) {
	if got := find(t, index(t), Call{Path: "/x"}); got != "none" {
		t.Errorf("empty table: got %q, want none", got)
	}
	for _, path := range []string{"/", "/orders", "/orders/7/8", "/order/7", "/orders/"} {
		if got := find(t, index(t, "/orders/{id}"), Call{Path: path}); got != "none" {
			t.Errorf("%s: got %q, want none", path, got)
		}
	}
}

// An invalid pattern is reported with its field, the problem and what to do.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		pattern     Pattern
		field, want string
	}{
		{Pattern{API: "a b"}, "api", `is "a b": must be letters and digits`},
		{Pattern{API: strings.Repeat("a", 65)}, "api", "has 65 characters: must have at most 64"},
		{Pattern{Stage: "ü"}, "stage", `is "ü": must be letters, digits, - and _`},
		{Pattern{Stage: strings.Repeat("a", 129)}, "stage", "has 129 characters"},
		{Pattern{Method: "GET,PUT"}, "method", `is "GET,PUT": must be letters`},
		{Pattern{Method: strings.Repeat("A", 17)}, "method", "has 17 characters: must have at most 16"},
		{Pattern{Path: "orders"}, "path", "must begin with /"},
		{Pattern{Path: "/" + strings.Repeat("a", 512)}, "path", "has 513 bytes: must have at most 512"},
		{Pattern{Path: strings.Repeat("/a", 33)}, "path", "has 33 segments: must have at most 32"},
		{Pattern{Path: "/a//b"}, "path", `has "" as segment 2: is empty`},
		{Pattern{Path: "//a"}, "path", `has "" as segment 1: is empty`},
		{Pattern{Path: "/a/*/b"}, "path", `has "*" before its end`},
		{Pattern{Path: "/{a+}/b"}, "path", `has "{a+}" before its end`},
		{Pattern{Path: "/{a}/{a}"}, "path", "has the parameter {a} twice"},
		{Pattern{Path: "/{}"}, "path", "a parameter's name must be"},
		{Pattern{Path: "/{+}"}, "path", "a parameter's name must be"},
		{Pattern{Path: "/{a b}"}, "path", "a parameter's name must be"},
		{Pattern{Path: "/a{b}"}, "path", "a segment cannot contain a brace or *"},
		{Pattern{Path: "/{"}, "path", "a segment cannot contain a brace or *"},
		{Pattern{Path: "/a*"}, "path", "a segment cannot contain a brace or *"},
		{Pattern{Path: "/a/../b"}, "path", "write the path without it"},
		{Pattern{Path: "/%2e"}, "path", "write the path without it"},
		{Pattern{Path: "/a;b"}, "path", "only {name} or {name+} can match"},
		{Pattern{Path: "/a%2Fb"}, "path", "only {name} or {name+} can match"},
		{Pattern{Path: "/a%2561"}, "path", "only {name} or {name+} can match"},
		{Pattern{Path: "/a%00"}, "path", "cannot be printed"},
		{Pattern{Path: "/%ff"}, "path", "cannot be printed"},
	} {
		errs := c.pattern.Errors()
		if len(errs) != 1 || errs[0].Field != c.field || !strings.Contains(errs[0].Message, c.want) {
			t.Errorf("%+v: got %v, want %s: …%s…", c.pattern, errs, c.field, c.want)
		}
		if err := c.pattern.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: Validate: got %v, want %q", c.pattern, err, c.want)
		}
		if _, err := NewIndex([]Pattern{c.pattern}); err == nil {
			t.Errorf("%+v: NewIndex: got no error", c.pattern)
		}
	}
	if errs := (Pattern{API: "-", Stage: "/", Method: "?", Path: "?"}).Errors(); len(errs) != 4 {
		t.Errorf("got %v, want one error for each field", errs)
	}
}

func TestParseReadsWhatStringWrites(t *testing.T) {
	for _, p := range []Pattern{
		{}, {Path: "/a b"}, {Method: "GET", Path: "/a b"}, {API: "a1", Path: "/x"},
		{Stage: "$default", Method: "$connect", Path: "/"}, {Path: "/{x}/*"},
	} {
		got, err := Parse(p.String())
		if err != nil || got.String() != p.String() || got.Canonical() != p.Canonical() {
			t.Errorf("%q: got %+v, %v, want the same pattern", p.String(), got, err)
		}
	}
	if p, err := Parse("/a b"); err != nil || p.Path != "/a b" {
		t.Errorf("path alone: got %+v, %v, want path /a b", p, err)
	}
	for _, text := range []string{"", " ", "GET", "GET /a /b", "a b c"} {
		if p, err := Parse(text); err == nil && text != "GET /a /b" {
			t.Errorf("%q: got %+v, want an error", text, p)
		}
	}
}

// A HEAD call matches the rule for GET, unless a rule for HEAD is at least as specific in
// API and path.
func TestHeadFollowsGet(t *testing.T) {
	for _, c := range []struct {
		rules []string
		call  Call
		want  string
	}{
		{[]string{"GET /report"}, Call{Method: "HEAD", Path: "/report"}, "GET /report"},
		{[]string{"get /report"}, Call{Method: "head", Path: "/REPORT/"}, "get /report"},
		{[]string{"GET /report", "*"}, Call{Method: "HEAD", Path: "/report"}, "GET /report"},
		{[]string{"GET /report", "/report"}, Call{Method: "HEAD", Path: "/report"}, "GET /report"},
		{[]string{"GET /report", "ANY /report"}, Call{Method: "HEAD", Path: "/report"}, "GET /report"},
		{[]string{"GET /report", "ANY /{proxy+}"}, Call{Method: "HEAD", Path: "/report"}, "GET /report"},
		{[]string{"GET /report", "HEAD /report"}, Call{Method: "HEAD", Path: "/report"}, "HEAD /report"},
		{[]string{"GET /report", "HEAD /report"}, Call{Method: "GET", Path: "/report"}, "GET /report"},
		{[]string{"*/prod GET /report", "HEAD /report"}, Call{Stage: "prod", Method: "HEAD", Path: "/report"},
			"HEAD /report"},
		{[]string{"GET /report", "HEAD *"}, Call{Method: "HEAD", Path: "/report"}, "GET /report"},
		{[]string{"GET /report", "HEAD /{proxy+}"}, Call{Method: "HEAD", Path: "/report"}, "GET /report"},
		{[]string{"GET /{name}", "HEAD /report"}, Call{Method: "HEAD", Path: "/report"}, "HEAD /report"},
		{[]string{"a1/* GET /report", "HEAD /report"}, Call{API: "a1", Method: "HEAD", Path: "/report"},
			"a1/* GET /report"},
		{[]string{"GET /{name}", "/report"}, Call{Method: "HEAD", Path: "/report"}, "* /report"},
		{[]string{"POST /report"}, Call{Method: "HEAD", Path: "/report"}, "none"},
		{[]string{"HEAD /report"}, Call{Method: "GET", Path: "/report"}, "none"},
		{[]string{"GET /report"}, Call{Method: "OPTIONS", Path: "/report"}, "none"},
		{[]string{"GET /report"}, Call{Path: "/report"}, "none"},
	} {
		for _, order := range [][]string{c.rules, reversed(c.rules)} {
			if got := find(t, index(t, order...), c.call); got != c.want {
				t.Errorf("%v, %s %s: got %q, want %q", order, c.call.Method, c.call.Path, got, c.want)
			}
		}
	}
}

// ANY matches every method, as in API Gateway. A rule that names the method wins over it.
func TestAnyMethod(t *testing.T) {
	for _, c := range []struct {
		rules        []string
		method, want string
	}{
		{[]string{"ANY /{proxy+}"}, "PATCH", "ANY /{proxy+}"},
		{[]string{"any /{proxy+}"}, "head", "any /{proxy+}"},
		{[]string{"ANY /{proxy+}"}, "", "ANY /{proxy+}"},
		{[]string{"ANY /{proxy+}", "/{proxy+}"}, "PUT", "ANY /{proxy+}"},
		{[]string{"ANY /{proxy+}", "PUT /{proxy+}"}, "PUT", "PUT /{proxy+}"},
	} {
		for _, order := range [][]string{c.rules, reversed(c.rules)} {
			if got := find(t, index(t, order...), Call{Method: c.method, Path: "/a/b"}); got != c.want {
				t.Errorf("%v, %s: got %q, want %q", order, c.method, got, c.want)
			}
		}
	}
}

// A call is refused if a lenient backend could resolve its path out of the pattern, with
// blanks, control characters or a NUL at a dot-segment, overlong UTF-8 or characters that
// Unicode folds to dots and slashes. A path with such characters elsewhere matches.
func TestDotSegmentsInDisguise(t *testing.T) {
	patterns := []Pattern{{Path: "/orders/*"}}
	index, err := NewIndex(patterns)
	if err != nil {
		t.Fatal(err)
	}
	list, err := NewList(patterns)
	if err != nil {
		t.Fatal(err)
	}
	for _, dots := range []string{
		"%c0%ae%c0%ae", "%C0%AE.", "%e0%80%ae%e0%80%ae", "\xc0\xae\xc0\xae", "..%20", "..%09", "..%00",
		"..%00.html", ".. ", "..\t", "..\x00", "..%7f", "%20..", "..%2520",
		"%ef%bc%8e%ef%bc%8e", "．．", "‥",
		"..%c0%af..", "x%ef%bc%8f..%ef%bc%8f..", "x%c1%9c..%c1%9c..", "..%20;a=b",
	} {
		path := "/orders/" + dots + "/admin"
		if found, err := index.Find(Call{Path: path}); err == nil {
			t.Errorf("%q: got %v, want ErrAmbiguous", path, found)
		}
		if list.Matches(Call{Path: path}) {
			t.Errorf("%q: got a match of the list, want none", path)
		}
	}
	for _, path := range []string{
		"/orders/M%C3%BCnchen", "/orders/München", "/orders/a%20b", "/orders/a%20/b", "/orders/%20",
		"/orders/a.%20", "/orders/...", "/orders/v1.2",
	} {
		if found, err := index.Find(Call{Path: path}); len(found) != 1 || err != nil {
			t.Errorf("%q: got %v, %v, want the pattern", path, found, err)
		}
		if !list.Matches(Call{Path: path}) {
			t.Errorf("%q: got no match of the list, want one", path)
		}
	}
}
