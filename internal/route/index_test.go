package route

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func index(t testing.TB, patterns ...string) *Index {
	t.Helper()
	var all []Pattern
	for _, text := range patterns {
		p, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	x, err := NewIndex(all)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// A call falls under every pattern that matches, the most specific first. Parameters have
// the values of the path with letters folded and encodings decoded.
func TestIndexFindsAll(t *testing.T) {
	x := index(t, "GET /v0/{base}/{table}", "/v0/*", "GET /v0/Meta/{base}", "*", "HEAD /v0/meta/x",
		"POST /v0/*")
	for _, c := range []struct {
		method, path, want string
	}{
		{"GET", "/v0/App1/T", "0[app1 t] 1[] 3[]"},
		{"GET", "/v0/meta/B%20c", "2[b c] 0[meta b c] 1[] 3[]"},
		{"HEAD", "/v0/meta/x", "4[] 2[x] 0[meta x] 1[] 3[]"},
		{"PUT", "/v0/meta/x", "1[] 3[]"},
		{"POST", "/v0/a/b/c", "5[] 1[] 3[]"},
		{"POST", "/v1", "3[]"},
	} {
		found, err := x.Find(Call{Method: c.method, Path: c.path})
		got := ""
		for _, m := range found {
			got += fmt.Sprintf("%d%v ", m.Index, m.Values)
		}
		if strings.TrimSpace(got) != c.want || err != nil {
			t.Errorf("%s %s: got %s, %v, want %s", c.method, c.path, got, err, c.want)
		}
	}
}

// A path that programs read in different ways is refused where routes decide by path,
// unless every reading falls under the same routes.
func TestIndexRefusesAmbiguousPaths(t *testing.T) {
	refused := []string{
		"/a/../secret/x", "/a/%2e%2e/secret/x", "/a/%252e%252e/secret/x", "/a/..%2fsecret/x",
		"/a/..;/secret/x",
		"/a/..\\secret/x", "/a/%2e%2e%5csecret/x", "/a/\uff0e\uff0e/secret/x", "/a/%c0%ae%c0%ae/secret/x",
		"//secret/x", "/secret//x", "/a//../secret/x", "/secret%2fx", "/secret;v=1/x", "/secret/x;v=1",
		"/secret/%00x", "/secret/x%0a", "/a/%20../secret/x", "/secret%252fx", "/a/../secret/%2e%2e/a/x",
		"/a/../secret//../a/y/q%2fw%2fe/../../..", "/secret/a/b/x/../..", "/b/../c", "/a/./b",
		"/secret/" + strings.Repeat("%41", 400),
	}
	x := index(t, "/secret/{id}", "/a/*")
	for _, p := range refused {
		if found, err := x.Find(Call{Method: "GET", Path: p}); !errors.Is(err, ErrAmbiguous) {
			t.Errorf("%q: got %v, %v, want ErrAmbiguous", p, found, err)
		}
	}
	for p, want := range map[string]int{
		"/a/b%20c": 1, "/a/caf%C3%A9": 1, "/secret/x/": 1, "/b/%2541": 0, "/b//c": 0,
		"/a/x%2fy": 1, "/a/x;v=1": 1, "/a/.b": 1, "/a/b..": 1, "/secret/v1.2": 1,
	} {
		if found, err := x.Find(Call{Method: "GET", Path: p}); err != nil || len(found) != want {
			t.Errorf("%q: got %v, %v, want %d patterns", p, found, err, want)
		}
	}
	for _, p := range refused {
		if _, err := index(t, "GET *", "*").Find(Call{Method: "GET", Path: p}); err != nil {
			t.Errorf("%q, where no route has a path: %v", p, err)
		}
	}
}

// What an independent reading of a path finds, Find finds too, or it refuses the call.
// The readings are Go's URL parser with RFC 3986's resolution, POSIX's normpath, and
// nginx's: decode once, then resolve.
func TestIndexReadsAsOthersDo(t *testing.T) {
	pieces := []string{"a", "x", "..", "%2e%2e", "", "q%2fw", "..;", ";", ".", "A", "%2E.",
		"%252e%252e", "\\", "..%5c"}
	x := index(t, "/a/*", "/x/{id}", "/a/x/*")
	others := map[string]func(string) string{
		"normpath": path.Clean,
		"nginx": func(p string) string {
			p = decodeOnce(p)
			return path.Clean(p)
		},
		"rfc3986": func(p string) string {
			base, _ := url.Parse("https://api.example/")
			u, err := base.Parse(strings.ReplaceAll(p, "\\", "%5c"))
			if err != nil || u.Host != "api.example" {
				return ""
			}
			return u.Path
		},
		"whatwg": func(p string) string {
			var out []string
			for i, text := range strings.Split(strings.ReplaceAll(p, "\\", "/")[1:], "/") {
				switch strings.ReplaceAll(strings.ToLower(text), "%2e", ".") {
				case ".":
				case "..":
					out = out[:max(0, len(out)-1)]
				default:
					out = append(out, text)
				}
				_ = i
			}
			return "/" + strings.Join(out, "/")
		},
	}
	rapid.Check(t, func(t *rapid.T) {
		p := "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 6).Draw(t, "path"), "/")
		found, err := x.Find(Call{Method: "GET", Path: p})
		if err != nil {
			return
		}
		for name, read := range others {
			as := read(p)
			if as == "" {
				continue
			}
			var segments reading
			for text := range strings.SplitSeq(strings.Trim(as, "/"), "/") {
				segments = append(segments, lower(decodeOnce(text)))
			}
			of := x.find(Call{Method: "GET"}, segments)
			if !slices.EqualFunc(found, of, func(a, b Matched) bool { return a.Index == b.Index }) {
				t.Fatalf("%q: found %v, and %s, which reads %q, would %v", p, found, name, as, of)
			}
		}
	})
}

// Two patterns overlap exactly if a call matches both.
func TestOverlap(t *testing.T) {
	segments := []string{"a", "b", "{x}", "*", "{y+}"}
	pattern := rapid.Custom(func(t *rapid.T) Pattern {
		p := Pattern{Method: rapid.SampledFrom([]string{"", "GET", "HEAD", "POST"}).Draw(t, "method")}
		for n := rapid.IntRange(0, 3).Draw(t, "segments"); n > 0; n-- {
			text := rapid.SampledFrom(segments).Draw(t, "segment")
			p.Path += "/" + text
			if text == "*" || text == "{y+}" {
				break
			}
			segments := strings.Count(p.Path, "{x}")
			if segments > 1 {
				p.Path = strings.Replace(p.Path, "{x}", "c", 1)
			}
		}
		return p
	})
	var calls []Call
	for _, method := range []string{"GET", "HEAD", "POST", "PUT"} {
		for _, p := range []string{"/", "/a", "/b", "/c", "/d"} {
			for _, q := range []string{"", "/a", "/b", "/c", "/d"} {
				for _, r := range []string{"", "/a", "/b", "/c", "/d/e"} {
					if path := strings.TrimSuffix(p, "/") + q + r; path != "" {
						calls = append(calls, Call{Method: method, Path: path})
					}
				}
			}
		}
	}
	calls = append(calls, Call{Method: "GET", Path: "/"}, Call{Method: "POST", Path: "/"})
	rapid.Check(t, func(t *rapid.T) {
		a, b := pattern.Draw(t, "a"), pattern.Draw(t, "b")
		x, err := NewIndex([]Pattern{a, b})
		if err != nil {
			t.Skip()
		}
		both := false
		for _, c := range calls {
			found, _ := x.Find(c)
			both = both || len(found) == 2
		}
		if got := Overlap(a, b); got != both {
			t.Fatalf("%s and %s: got %v, want %v", a, b, got, both)
		}
	})
}
