package policydoc

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

func jsonOf(t interface{ Fatal(...any) }, s policy.Set) string {
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
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
	routeName = rapid.SampledFrom([]string{"on", "yes", "a", "NULL", "x.y-z_1", "search", "true"})
	// limit draws limits with every mark, of routes that may not exist.
	limit = rapid.Custom(func(t *rapid.T) limits.Limit {
		words := rapid.SampledFrom([]string{"10 per 10 seconds", "1,000,000 calls per day",
			"1 input per 250 milliseconds",
			"1,000 per calendar month (Europe/Berlin)", "5 per calendar day"}).Draw(t, "rate")
		for _, marks := range [][]string{
			{"", ", on search", ", on abc123/prod GET /a%2Cb/{id}", ", on /status"},
			{"", ", except health", ", except GET /a, except yes"},
			{"", ", each caller", ", each group", ", each address", ", together",
				", each {id}", ", each caller and {id}",
				", each caller and pattern"},
			{"", ", denied calls count", ", notify at 80/100 %"}, {"", ", shadow"},
		} {
			words += rapid.SampledFrom(marks).Draw(t, "mark")
		}
		l, err := limits.Parse(words)
		if err != nil {
			t.Fatal(err)
		}
		return l
	})
	cost = rapid.Custom(func(t *rapid.T) limits.Costs {
		return rapid.SampledFrom([]limits.Costs{{}, {Free: true}, costs(map[string]int64{limits.Cost: 7}),
			costs(map[string]int64{limits.Cost: 0, "input": 500}), costs(map[string]int64{"on": 1, "x.y": 0}),
		}).Draw(t, "cost")
	})
)

func sets() *rapid.Generator[policy.Set] {
	return rapid.Custom(func(t *rapid.T) policy.Set {
		s := policy.Set{Version: rapid.Int64Range(1, 1<<31).Draw(t, "version"), Plans: []policy.Plan{},
			NextNumber: 100}
		lists := rapid.SliceOfN(limit, 0, 4)
		for i, n := range rapid.SliceOfNDistinct(name, 0, 4, rapid.ID).Draw(t, "plans") {
			p := policy.Plan{Number: i + 1, Name: n, Limits: orNil(lists.Draw(t, "limits"))}
			if p.Degraded = rapid.SampledFrom([]policy.Degraded{"", policy.Closed, policy.Open,
				policy.Local}).Draw(t,
				"degraded"); p.Degraded == policy.Local {
				p.Share = rapid.IntRange(1, 100).Draw(t, "share")
			}
			p.Opens = rapid.SampledFrom([][]route.Pattern{nil, {{Path: "/orders/*"}},
				{{API: "abc123", Stage: "prod", Method: "GET", Path: "/a%20b"}, {Method: "POST"}},
			}).Draw(t, "opens")
			s.Plans = append(s.Plans, p)
		}
		s.Limits = orNil(lists.Draw(t, "limits"))
		for i, n := range rapid.SliceOfNDistinct(routeName, 0, 4, rapid.ID).Draw(t, "routes") {
			pattern := route.Pattern{
				API: rapid.SampledFrom([]string{"", "*", "abc123"}).Draw(t, "api"),
				Stage: rapid.SampledFrom([]string{"", "*", "prod", "$default"}).Draw(t,
					"stage"),
				Method: rapid.SampledFrom([]string{"", "*", "GET", "$connect"}).Draw(t, "method"),
				Path:   fmt.Sprintf("/%d/{id}/a%%20b: #c", i),
			}
			more := rapid.IntRange(0, 1).Draw(t, "more")
			match := []route.Pattern{pattern, {Method: "GET", Path: "/b"}}[:1+more]
			s.Routes = append(s.Routes, limits.Route{ID: "id-" + n, Name: n, Match: match,
				Cost: cost.Draw(t, "cost"), Settle: rapid.Bool().Draw(t, "settle")})
		}
		networks := rapid.SliceOfN(prefix, 0, 3)
		s.Deny, s.Allow = networks.Draw(t, "deny"), networks.Draw(t, "allow")
		s.Exempt = networks.Draw(t, "exempt")
		if len(s.Plans) > 0 {
			s.TokenPlan = s.Plans[0].Name
		}
		return s
	})
}

// orNil returns nil for an empty list, as Set does.
func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
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

// Write quotes names that have another meaning in YAML.
func TestNamesOfYAML(t *testing.T) {
	for _, name := range []string{"<<", "*a", "&a", "!!binary x", "yes", "~", "0x10", "null", "- x", "a: b",
		"# c", "---", "...", "?", "="} {
		s := policy.Set{Plans: []policy.Plan{{Name: name, Limits: list("1 per second")}}}
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

// example is the policy of the language's description.
const example = `plans:
  - name: free
    limits:
      - 60 per 10 seconds
      - 20 per minute, on search
      - 1,000 per second, together          # all callers of this plan
  - name: partner
    limits:
      - 100 per minute
      - 200 per minute, each group
      - 30,000 input per minute
      - 8,000 output per minute
    degraded: open
    opens: [GET /*, POST /chat]
limits:                                      # whatever the plan
  - 100 per minute, each address
  - 5,000 per second, together
  - 5 calls per 5 seconds, on messages, each {channel}
  - 1 per second, on tickets, each caller and {ticket}
  - 40 per minute, each address, shadow
routes:
  - {name: search, match: [GET /search, "GET /find/{q}"]}
  - {name: messages, match: ["POST /channels/{channel}/messages"]}
  - {name: tickets, match: ["PUT /tickets/{ticket}", "PATCH /tickets/{ticket}"]}
  - {name: chat, match: [POST /chat], cost: {input: 500, output: 800}, settle: true}
  - {name: export, match: [POST /export], cost: 5}
  - {name: health, match: [GET /health], cost: 0}
`

// The language's example is valid, and its YAML and JSON say the same. A written file has
// every limit in words on a line of its own.
func TestExample(t *testing.T) {
	f, err := Read([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	set, err := f.Edit(&policy.Set{NextNumber: 1})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(PolicyOf(set))
	if err != nil {
		t.Fatal(err)
	}
	var document Policy
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	again, fieldErrors := document.Set(&policy.Set{NextNumber: 1})
	if len(fieldErrors) > 0 || jsonOf(t, again) != jsonOf(t, *set) {
		t.Errorf("%v\ngot  %s\nwant %s", fieldErrors, jsonOf(t, again), jsonOf(t, *set))
	}
	written, err := Write(set)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"\n      - 20 per minute, on search\n",
		"\n  - 1 per second, on tickets, each caller and {ticket}\n", "\n      - GET /find/{q}\n",
		"\n      input: 500\n", "\n    cost: 0\n"} {
		if !strings.Contains(string(written), line) {
			t.Errorf("the file lacks %q:\n%s", line, written)
		}
	}
}

// Every YAML example of the documentation is a valid policy file.
func TestExamplesOfTheDocs(t *testing.T) {
	var examples []string
	for page, least := range map[string]int{"backends.md": 1, "migrate.md": 2, "policies.md": 5} {
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
