package policydoc

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/policy"
)

// Read refuses an invalid file with the line and a message without names of Go types.
func TestReadRefuses(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1,
			c-1, c-1, c-1, c-1)
	}
	for name, row := range map[string]struct {
		text string
		line int
		want string
	}{
		"unknown field":           {"version: 1\nplnas: []\n", 2, `unknown field "plnas"`},
		"unknown field in a plan": {"plans:\n  - name: a\n    limts: []\n", 3, `unknown field "limts"`},
		"unknown field of a limit": {"plans:\n  - name: a\n    limits:\n      - {requests: 1, window: 1s, " +
			"algorythm: log}\n", 4,
			"plans[0].limits[0].algorythm is not a field of a limit"},
		"repeated field": {"version: 1\nplans: []\nversion: 2\n", 3,
			"version is set twice: first in line 1"},
		"repeated field, nested": {"plans:\n  - name: a\n    name: b\n", 3,
			"plans[0].name is set twice: first in line 2"},
		"anchor":         {"plans: &p []\n", 1, "anchor"},
		"alias":          {"plans: &p []\nroutes: *p\n", 1, "anchor"},
		"nested aliases": {bomb, 1, `unknown field "a"`},
		"merge key": {"plans:\n  - name: a\n    <<: {share: 1}\n", 3,
			"plans[0] has a field whose name is not plain text"},
		"tag":                        {"version: !!binary aGk=\n", 1, "tag"},
		"custom tag":                 {"plans: !evil []\n", 1, "tag"},
		"two documents":              {"version: 1\n---\nversion: 2\n", 2, "second document"},
		"second document is invalid": {"version: 1\n---\n{\n", 3, ""},
		"empty":                      {"", 1, "empty"},
		"only a comment":             {"# nothing\n", 1, "empty"},
		"a list":                     {"- a\n", 1, "not a policy"},
		"a word":                     {"policy\n", 1, "not a policy"},
		"null":                       {"null\n", 1, "not a policy"},
		"syntax":                     {"version: 1\nplans: [\n", 2, ""},
		"tabs":                       {"version: 1\nplans:\n\t- name: a\n", 3, "indent with spaces"},
		"octal": {"limits: [{requests: 0100, window: 1s}]\n", 1,
			"limits[0].requests is 0100, which YAML takes for an octal number: write 100"},
		"octal that is none": {"routes:\n  - cost: 08\n", 2, "routes[0].cost is 08"},
		"deep": {"plans: " + strings.Repeat("[", 40) + strings.Repeat("]", 40) +
			"\n", 1, "plans[0] must be a mapping, not a list"},
		"very deep":          {"plans: " + strings.Repeat("[", 100_000), 1, ""},
		"number for a list":  {"version: 1\nplans: 5\n", 2, `plans must be a list, not "5"`},
		"text for a number":  {"version: x\n", 1, `version must be a whole number, not "x"`},
		"list for text":      {"plans:\n  - name: [a]\n", 2, "must be text, not a list"},
		"list for an enum":   {"plans:\n  - name: a\n    degraded: [x]\n", 3, "must be text, not a list"},
		"mapping for a list": {"plans: {a: 1}\n", 1, "plans must be a list, not a mapping"},
		"text for a mapping": {"plans: [x]\n", 1, `plans[0] must be a mapping, not "x"`},
		"list for a limit":   {"limits: [[1]]\n", 1, "limits[0] is a list"},
		"text of two lines":  {"plans: \"a\\nb\"\n", 1, `plans must be a list, not "a\nb"`},
		"name of two lines":  {"\"a\\nb\": 1\n", 1, "unknown field"},
		"text for a bool":    {"routes:\n  - settle: maybe\n", 2, `routes[0].settle must be true or false, not "maybe"`},
		"fraction of a unit": {"routes:\n  - cost: {input: 1.5}\n", 2,
			`routes[0].cost.input must be a whole number, not "1.5"`},
		"fraction": {"routes:\n  - cost: 1.5\n", 2,
			`routes[0].cost must be a whole number, not "1.5"`},
		"fraction in a limit": {"limits: [{requests: 1_0.5, window: 1s}]\n", 1,
			"limits[0].requests must be a whole number"},
		"fraction in a list": {"limits: [{requests: 1, notify: [80, 99.5]}]\n", 1,
			"limits[0].notify[1] must be a whole number"},
		"negative version": {"version: -1\n", 1, "version must be 0 or more"},
		"text that is no limit": {"plans:\n  - name: a\n    limits:\n      - many per hour\n", 4,
			`"many per hour" is not a limit: write a limit as "100 per 10 seconds"`},
		"unknown option of a limit": {"plans:\n  - name: a\n    limits:\n      - 1 per hour, fast\n", 4,
			`"fast" is no mark`},
		"window": {"plans:\n  - name: a\n    limits: [{requests: 1, window: fast}]\n", 3, "window"},
		"algorithm": {"plans:\n  - name: a\n    limits: [{requests: 1, window: 1s, algorithm: " +
			"magic}]\n", 3, "algorithm"},
		"address":         {"deny:\n  - 10.0.0.300/8\n", 2, ""},
		"pattern":         {"routes:\n  - name: a\n    match: GET orders\n", 3, "path"},
		"not text":        {"version: \xff\n", 1, "UTF-8"},
		"too large":       {"# " + strings.Repeat("x", MaxBytes), 1, "at most"},
		"too many values": {"deny: [" + strings.Repeat("a,", maxValues+1), 1, "more values"},
	} {
		_, err := Read([]byte(row.text))
		var invalid *InvalidError
		if !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
			t.Errorf("%s: got %v, want an InvalidError", name, err)
			continue
		}
		if p := invalid.Problems[0]; p.Line != row.line || !strings.Contains(p.String(), row.want) ||
			strings.Contains(p.String(), "policydoc.") {
			t.Errorf("%s: got %v, want line %d and %q", name, p, row.line, row.want)
		}
		if len(err.Error()) > 8000 {
			t.Errorf("%s: the errors have %d bytes, want at most 8000", name, len(err.Error()))
		}
	}
}

// A field that policies had once is refused by name, in a file and in a request, with what
// to write.
func TestRemovedFields(t *testing.T) {
	const onLimits, onPlan, onRoute = "", "plans", "routes"
	for field, c := range map[string]struct{ in, want string }{
		"perIP":       {onLimits, "600 per minute, each address"},
		"global":      {onLimits, "5,000 per second, together"},
		"bans":        {onLimits, "denied calls count"},
		"sharedLease": {onLimits, "leave it out"},
		"perGroup":    {onPlan, "200 per minute, each group"},
		"mode":        {onPlan, "100 per minute, shadow"},
		"candidate":   {onPlan, `each with "shadow"`},
		"allow":       {onPlan, "write opens"},
		"counts":      {onPlan, "500 calls per minute"},
		"pattern":     {onRoute, "write match"},
		"perKey":      {onRoute, "30 per minute, on NAME, each caller"},
		"shared":      {onRoute, "100 per minute, on NAME, together"},
		"settleMax":   {onRoute, "at most 10 times the estimate"},
		"overdraw":    {onRoute, "is owed"},
		"lease":       {onRoute, "every call asks the one count"},
		"slots":       {onRoute, "limits to 1,000 are exact"},
	} {
		file := field + ": 1\n"
		if c.in != "" {
			file = c.in + ":\n  - " + file
		}
		_, err := Read([]byte(file))
		if want := fmt.Sprintf("unknown field %q: ", field); err == nil ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q and %q", file, err, want, c.want)
		}
		if instead := Instead(field); !strings.Contains(instead, c.want) {
			t.Errorf("%s: got %q in a request, want %q", field, instead, c.want)
		}
	}
	for field, want := range map[string]string{"slots": "limits to 1,000 are exact", "mode": `"shadow": true`,
		"counts": `"unit": "calls"`, "candidate": `"shadow": true`, "lease": "leave it out",
	} {
		_, err := Read([]byte("limits:\n  - requests: 1\n    " + field + ": 1\n"))
		var document Policy
		inJSON := json.Unmarshal([]byte(`{"limits":[{"requests":1,"`+field+`":1}]}`), &document)
		_, problems := document.Set(&policy.Set{})
		if at := "line 3: limits[0]." + field; err == nil || !strings.HasPrefix(err.Error(), at) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("file with %s: got %v, want %q", field, err, want)
		}
		if inJSON != nil || len(problems) != 1 || problems[0].Field != "limits[0]."+field ||
			!strings.Contains(problems[0].Message, want) {
			t.Errorf("request with %s: got %v, %v; want %q", field, inJSON, problems, want)
		}
	}
}

// What YAML makes of a limit or a cost that people write is refused with what to write.
func TestTrapsOfYAML(t *testing.T) {
	for text, want := range map[string]string{
		"limits: [20 per minute, on search]":             "put a limit with a comma in quotes",
		"limits: [1,000 per second]":                     "put a limit with a comma in quotes",
		"limits: [15,000 per hour]":                      "put a limit with a comma in quotes",
		"limits: [100 per minute, each {channel}]":       "put the text in quotes",
		"routes: [{name: a, match: [GET /find/{q}]}]":    "put the text in quotes",
		"limits: [{requests: 1,000, window: 1m}]":        "write 1000",
		"limits:\n  - requests: 1\n    each: {channel}":  `write each: "{channel}"`,
		"limits:\n  - 20 per minute, on search #2":       "put the limit in quotes",
		"limits:\n  - 20 per minute, on search, #shadow": "put the limit in quotes",
		"limits:\n  - 20 per minute, together, # shadow": "ends with a comma",
		"limits:\n  - 100 per minute: burst 20":          "has a colon after",
		"limits:\n  - on search: 20 per minute":          "write 20 per minute, on search",
		"limits:\n  - true: search\n    requests: 1":     `write "on" in quotes`,

		"routes: [{name: a, match: GET /, cost: {a: 5,000, b: 3,000}}]": "write 1000",

		"routes: [{name: a, match: GET /, cost: {input:500}}]":   "write a space after the colon, input: 500",
		"routes: [{name: a, match: GET /, cost: {a: 5,000}}]":    "write 1000",
		"routes: [{name: a, match: GET /, cost: many}]":          "routes[0].cost must be a whole number",
		"routes: [{name: a, match: GET /, cost: {input: many}}]": "cost.input must be a whole number",
		"routes:\n  - {name: a, match: \"GET /a, GET /b\"}":      "write each on a line of its own",
		"limits:\n  - 100 requests per minute, together":         "write \"100 calls per minute\"",
		"limits:\n  - 20 per minute, on a, on b":                 "a limit has one",
		"limits:\n  - 20 per minute, on search, export": "give a route both patterns, " +
			"or write two limits",
		"limits:\n  - 20 per minute, each caller, together": "a limit has one",
	} {
		_, err := Read([]byte(text + "\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"limits:\n  - 100 per minute": "line 2: limits[0].each is missing. For whom? Write " +
			"100 per minute, each caller; each address; or together",
		"limits:\n  - 100 per minute, each caller, on serach\n" +
			"routes: [{name: search, match: GET /s}]": "did you mean search?",
	} {
		f, err := Read([]byte(text + "\n"))
		if err == nil {
			_, err = f.Edit(&policy.Set{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %q", text, err, want)
		}
	}
}

// Set names all fields that cannot be parsed, at once.
func TestUnreadableFields(t *testing.T) {
	var document Policy
	text := `{"plans":[{"name":"a","limits":[{"requests":1,"window":"1s"},
		{"window":"fast","algorithm":"magic","calendar":"fortnight"},
		{"requests":"many"},"many per hour",null]}],"limits":[{"each":"ip"}],
		"routes":[{"name":"a","match":[{"path":"/"}],"cost":"x"},{"name":"b","cost":null}],
		"deny":["203.0.113.7","home"]}`
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	set, fieldErrors := document.Set(&policy.Set{})
	var fields []string
	for _, e := range fieldErrors {
		fields = append(fields, e.Field)
	}
	slices.Sort(fields)
	want := []string{"deny[1]", "limits[0].each", "plans[0].limits[1].window", "plans[0].limits[2].requests",
		"plans[0].limits[3]", "plans[0].limits[4]", "routes[0].cost"}
	if !slices.Equal(fields, want) {
		t.Errorf("got  %v\nwant %v", fields, want)
	}
	if got := set.Deny[0].String(); got != "203.0.113.7/32" {
		t.Errorf("a single address: got %s, want 203.0.113.7/32", got)
	}
}
