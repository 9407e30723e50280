package route

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// A list matches a call if in each reading of the path one of its patterns matches.
func TestList(t *testing.T) {
	list, err := NewList([]Pattern{
		{API: "orders1", Stage: "prod", Method: "GET", Path: "/orders/*"}, {API: "orders1", Path: "/health"},
		{API: "any", Stage: "*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for call, want := range map[Call]bool{
		{"orders1", "prod", "GET", "/orders/7"}:              true,
		{"orders1", "prod", "HEAD", "/orders/7"}:             true,
		{"orders1", "prod", "get", "//ORDERS//7/"}:           true,
		{"orders1", "prod", "GET", "/orders/7%2f8"}:          true,
		{"orders1", "dev", "POST", "/health/"}:               true,
		{"any", "x", "DELETE", "/what/../ever"}:              true,
		{"orders1", "prod", "GET", "/orders"}:                false,
		{"orders1", "prod", "POST", "/orders/7"}:             false,
		{"orders1", "dev", "GET", "/orders/7"}:               false,
		{"orders2", "prod", "GET", "/orders/7"}:              false,
		{"ORDERS1", "prod", "GET", "/orders/7"}:              false,
		{"orders1", "prod", "GET", "/admin"}:                 false,
		{"orders1", "prod", "GET", "/orders/../admin"}:       false,
		{"orders1", "prod", "GET", "/orders/..%2fadmin"}:     false,
		{"orders1", "prod", "GET", "/orders/%2e%2e/admin"}:   false,
		{"orders1", "prod", "GET", "/orders/..%252fadmin"}:   false,
		{"orders1", "prod", "GET", `/orders/..\admin`}:       false,
		{"orders1", "prod", "GET", "/orders/..;x/admin"}:     false,
		{"orders1", "prod", "GET", "/admin/..%2forders/7"}:   false,
		{"orders1", "prod", "GET", "/admin%2f..%2forders/7"}: false,
		{"orders1", "prod", "GET", "/orders%2f7"}:            false,
		{"orders1", "prod", "GET", "/prod/orders/7"}:         false,
		{"orders1", "prod", "GET", "/health;/../admin"}:      false,
		{"orders1", "prod", "GET", ""}:                       false,
	} {
		if got := list.Matches(call); got != want {
			t.Errorf("%v: got %t, want %t", call, got, want)
		}
	}
	if none, err := NewList(nil); err != nil || none.Matches(Call{Path: "/"}) {
		t.Errorf("empty list: got %v, or a match, want none", err)
	}
	if _, err := NewList([]Pattern{{Path: "orders"}}); err == nil {
		t.Error("invalid pattern: got no error")
	}
}

// randomPath returns a random path with the form of a pattern. One in four has segments
// with ambiguous spellings.
func randomPath(random *rand.Rand, pattern string) string {
	texts := []string{"a", "b", "7", "B", "x%20y"}
	if random.IntN(4) == 0 {
		texts = []string{"%2e%2e", "a%2fb", "..", "a;b", `a\b`, "a%252f", ""}
	}
	text := func() string { return texts[random.IntN(len(texts))] }
	var path strings.Builder
	for s := range strings.SplitSeq(strings.TrimPrefix(pattern, "/"), "/") {
		switch {
		case s == "*" || strings.HasSuffix(s, "+}"):
			for range 1 + random.IntN(3) {
				path.WriteString("/" + text())
			}
		case strings.HasPrefix(s, "{"):
			path.WriteString("/" + text())
		default:
			path.WriteString("/" + s)
		}
	}
	return path.String()
}

// If Covers returns Every, the list matches each call of the route; if None, it matches
// none. With Some, both occur.
func TestCovers(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	paths := []string{"/", "/a", "/a/b", "/a/{x}", "/{x}", "/{x}/b", "/{x}/{y}", "/{x+}", "/a/{x+}", "/a/b/*",
		"/{x}/b/{y}", "/B/a", "/a/b/7"}
	seen := map[Coverage][2]int{}
	for range 20_000 {
		var patterns []Pattern
		for range 1 + random.IntN(2) {
			patterns = append(patterns, Pattern{API: pick("", "one"), Stage: pick("", "*", "prod"),
				Method: pick("", "GET", "ANY", "HEAD", "PURGE"), Path: pick(append(paths, "*", "")...)})
		}
		list, err := NewList(patterns)
		if err != nil {
			t.Fatal(err)
		}
		called := Call{pick("one", "two"), pick("prod", "dev"),
			NameMethod(pick("GET", "get", "HEAD", "POST", "PURGE", "LINK")), pick(paths...)}
		covered := list.Covers(called)
		for range 5 {
			call := called
			if call.Path = randomPath(random, called.Path); called.Method == otherMethod {
				call.Method = pick("PURGE", "LINK")
			}
			if !Under(call.Path, called.Path) {
				continue
			}
			matches := list.Matches(call)
			if covered == None && matches || covered == Every && !matches {
				t.Fatalf("%v covers %v by %d, but matches %v: %t", patterns, called, covered, call, matches)
			}
			counts := seen[covered]
			counts[map[bool]int{true: 1}[matches]]++
			seen[covered] = counts
		}
	}
	if some := seen[Some]; seen[None][0] < 1000 || seen[Every][1] < 1000 || some[0] < 1000 || some[1] < 100 {
		t.Errorf("got too few cases: %v", seen)
	}
}

// Under reports whether a rule for the pattern that API Gateway matched also matches the
// path of the call.
func TestUnder(t *testing.T) {
	for _, c := range []struct {
		path, pattern string
		want          bool
	}{
		{"/orders/7", "/orders/{id}", true},
		{"/orders/a%20b", "/orders/{id}", true},
		{"/orders", "/orders", true},
		{"/", "/", true},
		{"/v1/orders/7", "/orders/{id}", false}, // a custom domain's base path
		{"/v1/orders", "/orders", false},
		{"/orders/7%2f8", "/orders/{id}", false},
		{"/orders/..%2fadmin", "/orders/{id}", false},
		{"/orders/..", "/orders/{id}", false},
		{`/orders/..\admin`, "/orders/{id}", false},
		{"/orders/7;v=1", "/orders/{id}", false},
		{"/orders/7/lines/2", "/orders/{proxy+}", true},
		{"/orders/../admin", "/orders/{proxy+}", false},
		{"/orders", "/orders/{proxy+}", false},
		{"/orders/7", "/orders/*", true},
		{"/v1/orders/7", "/orders/*", false},
	} {
		if got := Under(c.path, c.pattern); got != c.want {
			t.Errorf("%s under %s: got %t, want %t", c.path, c.pattern, got, c.want)
		}
	}
}
