package policydoc

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

const sample = `version: 7
plans:
  - name: free
    limits:
      - 10 per 10 seconds
      - {requests: 1000, window: 1h, algorithm: counter}
    degraded: local
    share: 20
  - name: pro
    was: premium
    limits:
      - 1,000 per calendar month (Europe/Berlin)
      - 2,000 per hour, each group
    opens: [GET /*, POST /talk]
limits:
  - 100 per second, each address, shadow
  - 60 per minute, on talk, each address, token bucket
routes:
  - name: talk
    was: chat
    match: POST /talk
    cost: {cost: 5, input: 500}
    settle: true
  - name: all
    match:
      - {method: GET, path: /*}
      - DELETE /orders/{id}
    cost: 2
  - name: health
    match: [GET /health]
    cost: 0
deny: [203.0.113.0/24]
tokenPlan: free
`

// list returns limits by their words.
func list(words ...string) []limits.Limit {
	var all []limits.Limit
	for _, text := range words {
		l, err := limits.Parse(text)
		if err != nil {
			panic(err)
		}
		all = append(all, l)
	}
	return all
}

func costs(units map[string]int64) limits.Costs { return limits.Costs{Units: units} }

func current() *policy.Set {
	return &policy.Set{
		Version: 7, NextNumber: 4,
		Plans: []policy.Plan{
			{Number: 1, Name: "free", Limits: list("10 per 10 seconds")},
			{Number: 3, Name: "premium", Limits: list("1 per second")},
		},
		Routes: []limits.Route{
			{ID: "chat", Name: "chat", Match: []route.Pattern{{Method: "POST", Path: "/chat"}},
				Cost: costs(map[string]int64{limits.Cost: 4})},
			{ID: "old", Name: "old", Match: []route.Pattern{{}}}},
	}
}

func read(t *testing.T, text string) policy.Set {
	t.Helper()
	f, err := Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f.Set(current())
}

// Read and File.Set return every setting of a file. A plan keeps its number, and a route
// its ID, if its name, or its former name in was, is known.
func TestRead(t *testing.T) {
	got := read(t, sample)
	want := policy.Set{
		Version: 7, NextNumber: 4,
		Plans: []policy.Plan{
			{Number: 1, Name: "free", Degraded: policy.Local, Share: 20,
				Limits: list("10 per 10 seconds", "1,000 per hour, counter")},
			{Number: 3, Name: "pro",
				Limits: list("1,000 per calendar month (Europe/Berlin)", "2,000 per hour, each group"),
				Opens:  []route.Pattern{{Method: "GET", Path: "/*"}, {Method: "POST", Path: "/talk"}}},
		},
		Limits: list("100 per second, each address, shadow",
			"60 per minute, on talk, each address, token bucket"),
		Routes: []limits.Route{
			{ID: "chat", Name: "talk", Match: []route.Pattern{{Method: "POST", Path: "/talk"}},
				Cost: costs(map[string]int64{limits.Cost: 5, "input": 500}), Settle: true},
			{Name: "all", Match: []route.Pattern{{Method: "GET", Path: "/*"},
				{Method: "DELETE", Path: "/orders/{id}"}}, Cost: costs(map[string]int64{limits.Cost: 2})},
			{Name: "health", Match: []route.Pattern{{Method: "GET", Path: "/health"}},
				Cost: limits.Costs{Free: true}},
		},
		Deny: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, TokenPlan: "free",
	}
	if jsonOf(t, got) != jsonOf(t, want) {
		t.Errorf("got  %s\nwant %s", jsonOf(t, got), jsonOf(t, want))
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}

// Diff names each changed field, with its values before and after in words.
func TestDiff(t *testing.T) {
	after := read(t, sample)
	got := Text(Diff(current(), &after))
	want := `plan free: limits: 10 per 10 seconds → 10 per 10 seconds; 1,000 per hour, counter
plan free: if Valkey is unavailable: closed: calls are denied → local: each environment admits 20 %
plan pro: name: premium → pro
plan pro: limits: 1 per second → 1,000 per calendar month (Europe/Berlin); 2,000 per hour, each group
plan pro: open routes: all → GET /*, POST /talk
route talk: name: chat → talk
route talk: calls to: POST /chat → POST /talk
route talk: cost: 4 → 5, 500 input, settled after
route old: * *; cost 1 → none
route all: none → GET /*, DELETE /orders/{id}; cost 2
route health: none → GET /health; cost 0
limits of all callers: none → 100 per second, each address, shadow; ` +
		`60 per minute, on talk, each address, token bucket
refused addresses: none → 203.0.113.0/24
default plan for JWTs: none → free
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A former name of a plan must be clear. A plan that has its new name already, and a new deployment,
// need none.
func TestFormerNamesAreClear(t *testing.T) {
	for plans, want := range map[string]string{
		"gold was premium":                       "",
		"gold was premium, silver":               "",
		"gold was premium, premium":              "line 4: plans[0].was",
		"gold was premium, premium was free":     "line 4: plans[0].was",
		"gold was premium, silver was premium":   "line 4: plans[0].was",
		"free was basic, basic, premium was old": "",
		"a was b, b was c":                       "",
	} {
		var text strings.Builder
		text.WriteString("plans:\n")
		for plan := range strings.SplitSeq(plans, ", ") {
			name, was, renamed := strings.Cut(plan, " was ")
			fmt.Fprintf(&text, "  - name: %s\n    limits: [5 per second]\n", name)
			if renamed {
				fmt.Fprintf(&text, "    was: %s\n", was)
			}
		}
		f, err := Read([]byte(text.String()))
		if err == nil {
			_, err = f.Edit(current())
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", plans, err, want)
		}
	}
}

// So must a former name of a route.
func TestFormerNamesOfRoutesAreClear(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"renamed":              {"talk, was: chat", ""},
		"renamed before":       {"chat, was: talk", ""},
		"the old name goes on": {"talk, was: chat}, {match: GET /b, name: chat", "line 1: routes[0].was"},
		"two of one": {"talk, was: chat}, {match: GET /b, name: say, was: chat",
			"line 1: routes[0].was"},
		"an unknown former name": {"talk, was: nothing}, {match: GET /b, name: say, was: nothing", ""},
	} {
		f, err := Read([]byte("routes: [{match: GET /a, name: " + c.text + "}]\n"))
		if err == nil {
			_, err = f.Edit(current())
		}
		if c.want == "" && err != nil ||
			c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// A plan can have a name such as 1.5, which YAML takes for a number.
func TestReadNumberAsText(t *testing.T) {
	if got := read(t, "plans:\n  - name: 1.5\n").Plans[0].Name; got != "1.5" {
		t.Errorf("name: got %q, want 1.5", got)
	}
}

// Read accepts what editors and other programs write around and in a policy.
func TestReadAsWritten(t *testing.T) {
	const plain = "plans:\n  - name: free\n    degraded: open\n    limits: [{requests: 100, window: 1s, " +
		"countDenied: true}]\nroutes:\n  - name: a\n    match: GET /a\n    settle: true\n"
	want := jsonOf(t, read(t, plain))
	for name, text := range map[string]string{
		"byte order mark": "\ufeff" + plain,
		"CRLF":            strings.ReplaceAll(plain, "\n", "\r\n"),
		"directive":       "%YAML 1.2\n---\n" + plain,
		"all of them": "\ufeff# ours\r\n\r\n%YAML 1.2\r\n---\r\n" +
			strings.ReplaceAll(plain, "\n", "\r\n"),
		"end": "---\n" + plain + "...\n",
		"tabs in lines": strings.NewReplacer(": free", ":\tfree", "open\n",
			"open\t# for now\n").Replace(plain),
		"yes and on": strings.NewReplacer("countDenied: true", "countDenied: on", "settle: true",
			"settle: yes").Replace(plain),
		"YAML 1.2 itself": "%YAML 1.2\n---\n" + strings.Replace(plain, "degraded: open", `degraded: "open"`, 1),
	} {
		if got := jsonOf(t, read(t, text)); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// A large file is read or refused in time that grows with its size, whatever is in it:
// comments, fields, values and nesting.
func TestLargeFiles(t *testing.T) {
	const many = 100_000
	fields := func(format string) string {
		var b strings.Builder
		for i := range many {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, row := range map[string]struct{ text, want string }{
		"at the top":         {fields("f%x: 1\n"), `unknown field "f0"`},
		"without values":     {fields("f%x:\n"), `unknown field "f0"`},
		"in braces":          {"{" + fields("f%x: 1, ") + "a: 1}", `unknown field "f0"`},
		"in a plan":          {"plans:\n- name: a\n" + fields("  f%x: 1\n"), `unknown field "f0"`},
		"in a limit":         {"limits: [{" + fields("f%x: 1, ") + "a: 1}]", "limits[0].f0 is not a field"},
		"with explicit keys": {fields("? f%x\n: 1\n"), `unknown field "f0"`},
		"in brackets":        {"plans: " + strings.Repeat("[", many), "depth"},
		"many values":        {"deny: [" + strings.Repeat("a,", maxValues+1) + "a]", "more values"},
		"many lines":         {strings.Repeat("\n", maxValues+1), "more values"},
		"comments":           {"plans:\n" + fields("  # note: %d\n") + "  - name: free\n", ""},
	} {
		_, err := Read([]byte(row.text))
		if row.want == "" && err != nil ||
			row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: got %.200v, want %q", name, err, row.want)
		}
		var invalid *InvalidError
		if errors.As(err, &invalid) && invalid.TooMany != (row.want == "more values") {
			t.Errorf("%s: too many: got %v", name, invalid.TooMany)
		}
	}
}

// Locate gives an error of Validate the line of the invalid value.
func TestLocate(t *testing.T) {
	text := "version: 7\nplans:\n  - name: free\n    limits:\n      - 10 per second\n      - 0 per " +
		"second\n    share: 3\n" +
		"routes:\n  - name: x\n    match: GET /\n    cost: -1\n"
	f, err := Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set := f.Set(current())
	var invalid *policy.InvalidError
	if !errors.As(set.Validate(), &invalid) {
		t.Fatal("the set is valid")
	}
	lines := map[string]int{}
	for _, p := range f.Locate(invalid.Fields).Problems {
		lines[p.Field] = p.Line
	}
	for field, want := range map[string]int{"plans[0].limits[1].requests": 6, "plans[0].share": 7,
		"routes[0].cost": 11} {
		if lines[field] != want {
			t.Errorf("%s: got line %d, want %d", field, lines[field], want)
		}
	}
}
