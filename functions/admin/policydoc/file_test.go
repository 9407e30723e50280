package policydoc

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/limiter"
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
    limits: ["1,000 per calendar month (Europe/Berlin), fixed window"]
    perGroup: [2000 per hour]
routes:
  - name: chat
    pattern: POST /chat
    cost: 5
    settle: true
    settleMax: 1000
    perIP: [60 per minute, token bucket]
  - name: all
    pattern: {method: GET, path: /*}
perIP: {limits: [100 per second], mode: shadow}
deny: [203.0.113.0/24]
tokenPlan: free
`

func current() *policy.Set {
	return &policy.Set{
		Version: 7, NextNumber: 4,
		Plans: []policy.Plan{
			{Number: 1, Name: "free", Limits: []limiter.Limit{{Requests: 10, Window: 10 * time.Second}}},
			{Number: 3, Name: "premium", Limits: []limiter.Limit{{Requests: 1, Window: time.Second}}},
		},
		Routes: []policy.Route{{Name: "chat", Pattern: route.Pattern{Method: "POST", Path: "/chat"}, Cost: 4},
			{Name: "old", Cost: 1}},
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

// Read and File.Set return every setting of a file. A plan keeps its number if its name,
// or its former name in was, is known.
func TestRead(t *testing.T) {
	text := strings.Replace(sample, "[60 per minute, token bucket]", `["60 per minute, token bucket"]`, 1)
	got := read(t, text)
	want := policy.Set{
		Version: 7, NextNumber: 4,
		Plans: []policy.Plan{
			{Number: 1, Name: "free", Degraded: policy.Local, Share: 20, Limits: []limiter.Limit{
				{Requests: 10, Window: 10 * time.Second},
				{Requests: 1000, Window: time.Hour, Algorithm: limiter.Counter},
			}},
			{Number: 3, Name: "pro", Limits: []limiter.Limit{
				{Requests: 1000, Calendar: limiter.Month, Zone: "Europe/Berlin",
					Algorithm: limiter.FixedWindow},
			},
				PerGroup: []limiter.Limit{{Requests: 2000, Window: time.Hour}}},
		},
		Routes: []policy.Route{
			{Name: "chat", Pattern: route.Pattern{Method: "POST", Path: "/chat"}, Cost: 5, Settle: true,
				SettleMax: 1000,
				PerIP: []limiter.Limit{{Requests: 60, Window: time.Minute,
					Algorithm: limiter.TokenBucket}}},
			{Name: "all", Pattern: route.Pattern{Method: "GET", Path: "/*"}, Cost: 1},
		},
		PerIP: policy.Scope{Limits: []limiter.Limit{{Requests: 100, Window: time.Second}},
			Mode: policy.Shadow},
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
	after := read(t, strings.Replace(sample, "[60 per minute, token bucket]",
		`["60 per minute, token bucket"]`, 1))
	got := Text(Diff(current(), &after))
	want := `plan free: limits: 10 per 10 seconds → 10 per 10 seconds; 1,000 per hour, counter
plan free: if Valkey is unavailable: closed: calls are denied → local: each environment admits 20 %
plan pro: name: premium → pro
plan pro: limits: 1 per second → 1,000 per calendar month (Europe/Berlin), fixed window
plan pro: each group: none → 2,000 per hour
route chat: cost: 4 → 5, settled after, at most 1,000 on shared limits
route chat: each address: none → 60 per minute, token bucket
route old: * *; cost 1 → none
route all: none → GET /*; cost 1
limits per address: none → 100 per second; shadow
refused addresses: none → 203.0.113.0/24
default plan for JWTs: none → free
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// An explicit settleMax differs from the default in words, even if both are the same
// number.
func TestDiffOfSettleMax(t *testing.T) {
	chat := func(settle bool, settleMax int64) *policy.Set {
		return &policy.Set{Routes: []policy.Route{
			{Name: "chat", Cost: 40, Settle: settle, SettleMax: settleMax}}}
	}
	for _, c := range []struct {
		before, after *policy.Set
		want          string
	}{
		{chat(true, 0), chat(true, 0), ""},
		{chat(true, 0), chat(true, 400),
			"route chat: cost: 40, settled after, at most 10 times the cost on shared limits → " +
				"40, settled after, at most 400 on shared limits\n"},
		{chat(false, 0), chat(true, 0),
			"route chat: cost: 40 → 40, settled after, at most 10 times the cost on shared limits\n"},
		{chat(false, 5000), chat(false, 0), "route chat: cost: 40, at most 5,000 on shared limits → 40\n"},
		{&policy.Set{}, chat(true, 5000),
			"route chat: none → * *; cost 40, settled after, at most 5,000 on shared limits\n"},
	} {
		if got := Text(Diff(c.before, c.after)); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// A former name must be clear. A plan that has its new name already, and a new deployment,
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
		"unknown field": {"version: 1\nplnas: []\n", 2, `unknown field "plnas"`},
		"former field": {"global:\n  limits: [1 per 1s]\n  lease: 1s\n", 3,
			`unknown field "lease": leave it out`},
		"former field of a plan": {"plans:\n  - name: a\n    candidate: [1 per 1s]\n", 3,
			`unknown field "candidate": write its limits among limits, each with “, shadow”`},
		"former field of a rule": {"routes:\n  - name: chat\n    overdraw: forgive\n", 3,
			`unknown field "overdraw": leave it out`},
		"former section": {"bans: {denials: 20, window: 1m, base: 10m, cap: 1d}\n", 1,
			`unknown field "bans": ban a key by hand`},
		"unknown field in a plan": {"plans:\n  - name: a\n    limts: []\n", 3, `unknown field "limts"`},
		"unknown field of a limit": {"plans:\n  - name: a\n    limits:\n      - {requests: 1, window: 1s, " +
			"algorythm: log}\n", 4,
			`unknown field "algorythm"`},
		"repeated field": {"version: 1\nplans: []\nversion: 2\n", 3,
			"version is set twice: first in line 1"},
		"repeated field, nested": {"plans:\n  - name: a\n    name: b\n", 3,
			"plans[0].name is set twice: first in line 2"},
		"anchor":         {"plans: &p []\n", 1, "anchor"},
		"alias":          {"plans: &p []\nroutes: *p\n", 1, "anchor"},
		"nested aliases": {bomb, 1, "anchor"},
		"merge key": {"plans:\n  - name: a\n    <<: {mode: off}\n", 3,
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
		"octal": {"perIP: {limits: [{requests: 0100, window: 1s}]}\n", 1,
			"perIP.limits[0].requests is 0100, which YAML takes for an octal number: write 100"},
		"octal that is none": {"routes:\n  - cost: 08\n", 2, "routes[0].cost is 08"},
		"deep": {"plans: " + strings.Repeat("[", 40) + strings.Repeat("]", 40) +
			"\n", 1, "is nested deeper than 8 levels"},
		"very deep":          {"plans: " + strings.Repeat("[", 100_000), 1, ""},
		"number for a list":  {"version: 1\nplans: 5\n", 2, `expected a list, got "5"`},
		"text for a number":  {"version: x\n", 1, `expected a whole number, got "x"`},
		"list for text":      {"plans:\n  - name: [a]\n", 2, "expected text, got a list"},
		"list for a mode":    {"plans:\n  - name: a\n    mode: [x]\n", 3, "expected text, got a list"},
		"mapping for a list": {"plans: {a: 1}\n", 1, "expected a list, got a mapping"},
		"text for a mapping": {"perIP: x\n", 1, `expected a mapping, got "x"`},
		"list for a limit":   {"perIP: {limits: [[1]]}\n", 1, "expected text or a mapping, got a list"},
		"text of two lines":  {"plans: \"a\\nb\"\n", 1, `expected a list, got "a\nb"`},
		"name of two lines":  {"\"a\\nb\": 1\n", 1, "unknown field"},
		"text for a bool":    {"routes:\n  - settle: maybe\n", 2, `expected true or false, got "maybe"`},
		"fraction": {"routes:\n  - cost: 1.5\n", 2,
			"routes[0].cost must be a whole number, not 1.5"},
		"fraction in a limit": {"perIP: {limits: [{requests: 1_0.5, window: 1s}]}\n", 1,
			"perIP.limits[0].requests must be a whole number"},
		"fraction in a list": {"perIP: {limits: [{requests: 1, notify: [80, 99.5]}]}\n", 1,
			"perIP.limits[0].notify[1] must be a whole number"},
		"negative version": {"version: -1\n", 1, "version must be 0 or more"},
		"text that is no limit": {"plans:\n  - name: a\n    limits:\n      - many per hour\n", 4,
			`"many per hour" is not a limit: write a limit as "100 per 10 seconds"`},
		"unknown option of a limit": {"plans:\n  - name: a\n    limits:\n      - 1 per hour, fast\n", 4,
			`"fast" is not an option of a limit`},
		"window": {"plans:\n  - name: a\n    limits: [{requests: 1, window: fast}]\n", 3, "window"},
		"algorithm": {"plans:\n  - name: a\n    limits: [{requests: 1, window: 1s, algorithm: " +
			"magic}]\n", 3, "algorithm"},
		"address":         {"deny:\n  - 10.0.0.300/8\n", 2, ""},
		"pattern":         {"routes:\n  - name: a\n    pattern: GET orders\n", 3, "path"},
		"not text":        {"version: \xff\n", 1, "UTF-8"},
		"too large":       {"# " + strings.Repeat("x", MaxBytes), 1, "at most"},
		"too many values": {"deny: [" + strings.Repeat("a,", maxMarks), 1, "more values"},
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

// Fractions are refused in every field with an integer.
func TestWholeNumbersHasEveryInteger(t *testing.T) {
	checkIntegers(t, reflect.TypeFor[Policy]())
}

func checkIntegers(t *testing.T, of reflect.Type) {
	for _, field := range reflect.VisibleFields(of) {
		path, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		value := field.Type
		for value.Kind() == reflect.Pointer || value.Kind() == reflect.Slice {
			if value.Kind() == reflect.Slice {
				path += "[0]"
			}
			value = value.Elem()
		}
		switch {
		case path == "-":
		case value.Kind() == reflect.Struct:
			checkIntegers(t, value)
		case value.ConvertibleTo(reflect.TypeFor[int64]()) && !wholeNumbers.MatchString(path):
			t.Errorf("%s.%s has an integer: add it to wholeNumbers", of, field.Name)
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
	const plain = "plans:\n  - name: free\n    mode: off\n    limits: [{requests: 100, window: 1s, " +
		"countDenied: true}]\nroutes:\n  - name: a\n    settle: true\n"
	want := jsonOf(t, read(t, plain))
	for name, text := range map[string]string{
		"byte order mark": "\ufeff" + plain,
		"CRLF":            strings.ReplaceAll(plain, "\n", "\r\n"),
		"directive":       "%YAML 1.2\n---\n" + plain,
		"all of them": "\ufeff# ours\r\n\r\n%YAML 1.2\r\n---\r\n" +
			strings.ReplaceAll(plain, "\n", "\r\n"),
		"end": "---\n" + plain + "...\n",
		"tabs in lines": strings.NewReplacer(": free", ":\tfree", "off\n",
			"off\t# for now\n").Replace(plain),
		"yes and on": strings.NewReplacer("countDenied: true", "countDenied: on", "settle: true",
			"settle: yes").Replace(plain),
		"YAML 1.2 itself": "%YAML 1.2\n---\n" + strings.Replace(plain, "mode: off", `mode: "off"`, 1),
	} {
		if got := jsonOf(t, read(t, text)); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// fieldsOf returns n different fields. format contains a separator after each.
func fieldsOf(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// Read refuses a mapping with many fields before it decodes the mapping: the library
// compares each field with every other, which takes quadratic time.
func TestFieldsAreBounded(t *testing.T) {
	const many = 100_000
	// braces is text that count takes for mappings
	braces := "x: \"" + strings.Repeat("{", many/maxFields) + "\"\n"
	for name, row := range map[string]struct{ text, want string }{
		"at the top":     {fieldsOf(190_000, "f%x: 1\n"), "190000 fields"},
		"without values": {fieldsOf(many, "f%x:\n"), "100000 fields"},
		"in braces":      {"{" + fieldsOf(many, "f%x: 1, ") + "a: 1}", "100001 fields"},
		"in a plan": {"plans:\n- name: a\n" + fieldsOf(many, "  f%x: 1\n"),
			"fields in about 1 mappings"},
		"in a limit": {"global: {limits: [{" + fieldsOf(many, "f%x: 1, ") + "a: 1}]}",
			"fields in about 2 mappings"},
		"with explicit keys": {fieldsOf(many, "? f%x\n: 1\n"), "fields in about 0 mappings"},
		"behind braces": {braces + fieldsOf(many, "f%x: 1\n"),
			"has 100001 fields: must have at most 32"},
		"in a list behind braces": {braces + "deny:\n- " + fieldsOf(many, "f%x: 1\n  "),
			"deny[0] has 100000 fields"},
		"one too many": {fieldsOf(maxFields+1, "f%x: 1\n"), "has 33 fields"},
		"many values":  {"deny: [" + strings.Repeat("a,", maxMarks), "more values"},
	} {
		_, err := Read([]byte(row.text))
		var invalid *InvalidError
		if !errors.As(err, &invalid) || !invalid.TooMany || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %q", name, err, row.want)
		}
	}
	_, err := Read([]byte(fieldsOf(maxFields, "f%x: 1\n")))
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.TooMany ||
		!strings.Contains(err.Error(), `unknown field "f0"`) {
		t.Errorf("maxFields fields: got %v, want an unknown field", err)
	}
}

// Locate gives an error of Validate the line of the invalid value.
func TestLocate(t *testing.T) {
	text := "version: 7\nplans:\n  - name: free\n    limits:\n      - 10 per second\n      - 0 per " +
		"second\n    share: 3\n" +
		"routes:\n  - name: x\n    pattern: GET /\n    cost: -1\n"
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

func jsonOf(t interface{ Fatal(...any) }, s policy.Set) string {
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// orNil returns nil for an empty list, as Set does.
func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

var (
	modes  = rapid.SampledFrom([]policy.Mode{"", policy.Enforce, policy.Shadow})
	prefix = rapid.Custom(func(t *rapid.T) netip.Prefix {
		bytes := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "address")
		if a, _ := netip.AddrFromSlice(bytes[:4]); rapid.Bool().Draw(t, "v4") {
			return netip.PrefixFrom(a, rapid.IntRange(0, 32).Draw(t, "bits")).Masked()
		}
		bytes[0] |= 0x20 // not an IPv4-mapped address
		a, _ := netip.AddrFromSlice(bytes)
		return netip.PrefixFrom(a, rapid.IntRange(8, 128).Draw(t, "bits")).Masked()
	})
	name = rapid.StringOfN(rapid.RuneFrom([]rune("ab 1:#-'\"{}[]&*!|>%@`,?~<é漢yesnoNULL0.\\")), 1, 20, -1).
		Filter(func(s string) bool { return s != "" && strings.TrimSpace(s) == s })
)

func sets() *rapid.Generator[policy.Set] {
	return rapid.Custom(func(t *rapid.T) policy.Set {
		s := policy.Set{Version: rapid.Int64Range(1, 1<<31).Draw(t, "version"), Plans: []policy.Plan{},
			NextNumber: 100}
		for i, n := range rapid.SliceOfNDistinct(name, 0, 4, rapid.ID).Draw(t, "plans") {
			p := policy.Plan{Number: i + 1, Name: n, Limits: limits(1, true).Draw(t, "limits"),
				Mode: modes.Draw(t, "mode"), PerGroup: limits(0).Draw(t, "perGroup")}
			if p.Degraded = rapid.SampledFrom([]policy.Degraded{"", policy.Closed, policy.Open,
				policy.Local}).Draw(t,
				"degraded"); p.Degraded == policy.Local {
				p.Share = rapid.IntRange(1, 100).Draw(t, "share")
			}
			p.Allow = rapid.SampledFrom([][]route.Pattern{nil, {{Path: "/orders/*"}},
				{{API: "abc123", Stage: "prod", Method: "GET", Path: "/a%20b"}, {Method: "POST"}},
			}).Draw(t, "allow")
			s.Plans = append(s.Plans, p)
		}
		for i, n := range rapid.SliceOfNDistinct(name, 0, 4, rapid.ID).Draw(t, "routes") {
			pattern := route.Pattern{
				API: rapid.SampledFrom([]string{"", "*", "abc123"}).Draw(t, "api"),
				Stage: rapid.SampledFrom([]string{"", "*", "prod", "$default"}).Draw(t,
					"stage"),
				Method: rapid.SampledFrom([]string{"", "*", "GET", "$connect"}).Draw(t, "method"),
				Path:   fmt.Sprintf("/%d/{id}/a%%20b: #c", i),
			}
			s.Routes = append(s.Routes, policy.Route{
				Name: n, Pattern: pattern, Cost: rapid.Int64Range(0, 3).Draw(t, "cost"),
				Settle:    rapid.Bool().Draw(t, "settle"),
				SettleMax: rapid.SampledFrom([]int64{0, 3, 1_000_000_000}).Draw(t, "settleMax"),
				Mode:      modes.Draw(t, "mode"),
				PerKey:    limits(0, true).Draw(t, "perKey"), PerIP: limits(0, true).Draw(t, "perIP"),
				Shared: limits(0).Draw(t, "shared"),
			})
		}
		s.PerIP = policy.Scope{Limits: limits(0, true).Draw(t, "ip"), Mode: modes.Draw(t, "mode")}
		s.Global = policy.Scope{Limits: limits(0).Draw(t, "global"), Mode: modes.Draw(t, "mode")}
		list := rapid.SliceOfN(prefix, 0, 3)
		s.Deny, s.Allow, s.Exempt = list.Draw(t, "deny"), list.Draw(t, "allow"), list.Draw(t, "exempt")
		if len(s.Plans) > 0 {
			s.TokenPlan = s.Plans[0].Name
		}
		return s
	})
}

// Write followed by Read returns an equal set, and writing that set returns the same
// file.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sets().Draw(t, "set")
		text, err := Write(&s)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Read(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		got := f.Set(&s)
		if changes := Diff(&s, &got); len(changes) > 0 || jsonOf(t, got) != jsonOf(t, s) {
			t.Fatalf("%v\ngot  %s\nwant %s\n%s", changes, jsonOf(t, got), jsonOf(t, s), text)
		}
		again, err := Write(&got)
		if err != nil || !slices.Equal(again, text) {
			t.Fatalf("written again: %v\n%s\n%s", err, text, again)
		}
	})
}

// The JSON document of a set has all of its settings.
func TestRoundTripJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sets().Draw(t, "set")
		text, err := json.Marshal(PolicyOf(&s))
		if err != nil {
			t.Fatal(err)
		}
		var document Policy
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatal(err)
		}
		got, fieldErrors := document.Set(&policy.Set{NextNumber: s.NextNumber})
		if len(fieldErrors) > 0 || jsonOf(t, got) != jsonOf(t, s) {
			t.Fatalf("%v\ngot  %s\nwant %s", fieldErrors, jsonOf(t, got), jsonOf(t, s))
		}
	})
}

// Set names all fields that cannot be parsed, at once.
func TestUnreadableFields(t *testing.T) {
	document := Policy{
		Plans: []Plan{{Limits: []Limit{{Requests: 1}, {Window: "fast", Algorithm: "magic",
			Calendar: "fortnight"}},
		}},
		Routes: []Rule{{PerKey: []Limit{{Window: "x"}}}},
		Deny:   []string{"203.0.113.7", "home"},
	}
	set, fieldErrors := document.Set(&policy.Set{})
	var fields []string
	for _, e := range fieldErrors {
		fields = append(fields, e.Field)
	}
	slices.Sort(fields)
	want := []string{"deny[1]",
		"plans[0].limits[1].algorithm", "plans[0].limits[1].calendar", "plans[0].limits[1].window",
		"routes[0].perKey[0].window"}
	if !slices.Equal(fields, want) {
		t.Errorf("got  %v\nwant %v", fields, want)
	}
	if got := set.Deny[0].String(); got != "203.0.113.7/32" {
		t.Errorf("a single address: got %s, want 203.0.113.7/32", got)
	}
}

// Write quotes names that have another meaning in YAML.
func TestNamesOfYAML(t *testing.T) {
	for _, name := range []string{"<<", "*a", "&a", "!!binary x", "yes", "~", "0x10", "null", "- x", "a: b",
		"# c", "---", "...", "?", "="} {
		s := policy.Set{Plans: []policy.Plan{
			{Name: name, Limits: []limiter.Limit{{Requests: 1, Window: time.Second}}}}}
		text, err := Write(&s)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Read(text)
		if err != nil {
			t.Errorf("%q: %v\n%s", name, err, text)
			continue
		}
		if got := f.Set(&s); got.Plans[0].Name != name {
			t.Errorf("got name %q, want %q", got.Plans[0].Name, name)
		}
	}
}

// Read does not panic. A valid set that it returns survives Write and Read.
func FuzzRead(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Read(text)
		if err != nil {
			return
		}
		set := file.Set(&policy.Set{})
		written, err := Write(&set)
		if err != nil {
			t.Skip() // Write checks no bounds; Validate does
		}
		if set.Validate() != nil {
			return
		}
		again, err := Read(written)
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		if read := again.Set(&policy.Set{}); jsonOf(t, read) != jsonOf(t, set) {
			t.Errorf("got %s\nwant %s", jsonOf(t, read), jsonOf(t, set))
		}
	})
}

// Every YAML example of the documentation is a valid policy file.
func TestExamplesOfTheDocs(t *testing.T) {
	var examples []string
	for page, least := range map[string]int{"backends.md": 1, "migrate.md": 2, "policies.md": 6} {
		text, err := os.ReadFile("../../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		found := strings.Split(string(text), "```yaml\n")[1:]
		if len(found) < least {
			t.Fatalf("%s: got %d examples, want at least %d", page, len(found), least)
		}
		examples = append(examples, found...)
	}
	for _, example := range examples {
		example, _, _ = strings.Cut(example, "```")
		set := read(t, example)
		if err := set.Validate(); err != nil {
			t.Errorf("%v in\n%s", err, example)
		}
	}
}
