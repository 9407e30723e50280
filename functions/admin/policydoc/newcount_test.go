package policydoc

import (
	"slices"
	"strings"
	"testing"

	"tidegate/internal/policy"
)

// setOf returns the set of a file, as an edit of before.
func setOf(t *testing.T, before *policy.Set, text string) *policy.Set {
	t.Helper()
	f, err := Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	next, err := f.Edit(before)
	if err != nil {
		t.Fatal(err)
	}
	identified, err := policy.Identify(*next, before)
	if err != nil {
		t.Fatal(err)
	}
	return identified
}

// Another who, unit, on or except begins a new count, and so does another window or
// algorithm of a limit that is not exact. Another number, window of an exact limit, plan or
// name does not.
func TestNewCounts(t *testing.T) {
	const base = `plans:
  - name: free
    limits:
      - 10 per minute
      - 20 per minute, on search
      - 100 per hour, counter
      - 50 per minute, each group
  - name: pro
    limits:
      - 90 per minute
limits:
  - 600 per minute, each address
routes:
  - {name: search, match: GET /search, cost: {cost: 2, input: 5}}
  - {name: export, match: POST /export}
`
	before := setOf(t, &policy.Set{NextNumber: 1}, base)
	for name, c := range map[string]struct {
		edits []string // old and new text
		want  []string
	}{
		"nothing":                  {nil, nil},
		"number":                   {[]string{"10 per minute", "30 per minute", "600 per", "900 per"}, nil},
		"window of an exact limit": {[]string{"20 per minute", "20 per hour"}, nil},
		"number of a counter":      {[]string{"100 per hour", "200 per hour"}, nil},
		"to the policy": {[]string{"      - 10 per minute\n", "",
			"limits:\n  - 600", "limits:\n  - 10 per minute, each caller\n  - 600"}, nil},
		"name of a route": {[]string{"name: search", "name: find, was: search", "on search", "on find"}, nil},
		"name of a plan":  {[]string{"name: pro", "name: gold\n    was: pro"}, nil},
		"into shadow": {[]string{"20 per minute, on search", "20 per minute, on search, shadow"},
			[]string{"plan free: 20 per minute, on search, shadow: starts at zero"}},
		"who": {[]string{"50 per minute, each group", "50 per minute, each address"},
			[]string{"plan free: 50 per minute, each address: starts at zero"}},
		"unit": {[]string{"10 per minute", "10 input per minute"},
			[]string{"plan free: 10 input per minute: starts at zero"}},
		"on": {[]string{"on search", "on export"},
			[]string{"plan free: 20 per minute, on export: starts at zero"}},
		"except": {[]string{"10 per minute", "10 per minute, except export"},
			[]string{"plan free: 10 per minute, except export: starts at zero"}},
		"of all callers": {[]string{"each address", "together"},
			[]string{"all callers: 600 per minute, together: starts at zero"}},
		"window of a counter": {[]string{"100 per hour", "100 per day"},
			[]string{"plan free: 100 per day, counter: starts at zero"}},
		"algorithm": {[]string{"100 per hour, counter", "100 per hour, fixed window"},
			[]string{"plan free: 100 per hour, fixed window: starts at zero"}},
		"a route of another name": {[]string{"name: search", "name: find", "on search", "on find"},
			[]string{"plan free: 20 per minute, on find: starts at zero"}},
		"an exact one of a counter's": {[]string{"10 per minute\n", "10 per minute, counter\n"},
			[]string{"plan free: 10 per minute, counter: starts at zero"}},
	} {
		after := setOf(t, before, strings.NewReplacer(append(c.edits, "\x00", "")...).Replace(base))
		var got []string
		for _, n := range NewCounts(before, after) {
			got = append(got, n.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// A shadow limit's count of what passed is that of an enforced one.
func TestEnforcedFromShadow(t *testing.T) {
	before := setOf(t, &policy.Set{NextNumber: 1},
		"plans:\n  - name: free\n    limits:\n      - 5 per minute, shadow\n")
	after := setOf(t, before, "plans:\n  - name: free\n    limits:\n      - 5 per minute\n")
	if got := NewCounts(before, after); len(got) > 0 {
		t.Errorf("got %v, want no new count", got)
	}
}

// A route keeps its ID, and so its counts, under a new name.
func TestRenamedRouteKeepsItsID(t *testing.T) {
	before := setOf(t, &policy.Set{NextNumber: 1}, "routes:\n  - {name: chat, match: POST /chat}\n")
	after := setOf(t, before, "routes:\n  - {name: talk, was: chat, match: POST /talk}\n")
	if got := after.Routes[0]; got.ID != before.Routes[0].ID || got.Name != "talk" {
		t.Errorf("got %+v, want the ID %s", got, before.Routes[0].ID)
	}
}

// What public APIs publish can be said: limits of a route that differ by plan, one count
// over several routes, a count for each parameter, and a route that costs nothing with a
// limit of calls of its own.
func TestPublishedLimitsCanBeSaid(t *testing.T) {
	for name, text := range map[string]string{
		"by plan": "plans:\n  - name: free\n    limits:\n      - 100 per minute\n" +
			"      - 2 per minute, on files\n" +
			"  - name: pro\n    limits:\n      - 100 per minute\n      - 5 per minute, on files\n" +
			"routes:\n  - {name: files, match: [\"GET /v1/files/{key}\"]}\n",
		"several routes": "plans:\n  - name: free\n    limits:\n      - 3 per minute, on orders\n" +
			"routes:\n  - {name: orders, match: [POST /api/v3/order, POST /api/v3/orderList/oco]}\n",
		"each parameter": "plans:\n  - name: free\n    limits:\n      - 100 per minute\n" +
			"limits:\n  - 3 per minute, on messages, each caller and {channel}\n" +
			"routes:\n  - {name: messages, match: [\"POST /channels/{channel}/messages\"]}\n",
		"its own count": "plans:\n  - name: free\n    limits:\n      - 5,000 per hour\n" +
			"limits:\n  - 3 calls per minute, on search, each caller\n" +
			"routes:\n  - {name: search, match: GET /search, cost: 0}\n",
	} {
		set := setOf(t, &policy.Set{NextNumber: 1}, text)
		if warnings := set.Language().Warnings(); len(warnings) > 0 {
			t.Errorf("%s: got %v, want no warning", name, warnings)
		}
	}
}
