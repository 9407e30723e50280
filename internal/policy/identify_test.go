package policy

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"tidegate/internal/limits"
)

// A new plan gets the next number and a new route an ID of its own. Known ones keep theirs
// whatever their names, and a route without an ID has that of its name.
func TestIdentify(t *testing.T) {
	current := &Set{NextNumber: 4, Plans: []Plan{{Number: 1, Name: "free"}, {Number: 3, Name: "pro"}},
		Routes: []limits.Route{{ID: "search", Name: "search"}, {ID: "chat", Name: "talk"}}}
	for name, c := range map[string]struct {
		plans  []Plan
		routes []limits.Route
		want   string // numbers, next number and IDs
	}{
		"unchanged": {current.Plans, current.Routes, "[1 3] 4 [search chat]"},
		"renamed": {[]Plan{{Number: 3, Name: "gold"}},
			[]limits.Route{{ID: "search", Name: "find"}}, "[3] 4 [search]"},
		"new": {[]Plan{{Name: "gold"}}, []limits.Route{{Name: "export"}},
			"[4] 5 [export]"},
		"by name":                  {nil, []limits.Route{{Name: "talk"}}, "[] 4 [chat]"},
		"with the ID of a renamed": {nil, []limits.Route{{Name: "chat"}}, "[] 4 [chat~2]"},
		"with the name of a renamed": {nil, []limits.Route{{ID: "search", Name: "find"}, {Name: "search"}},
			"[] 4 [search search~2]"},
	} {
		got, err := Identify(Set{Plans: c.plans, Routes: c.routes}, current)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		numbers, ids := []int{}, []string{}
		for _, p := range got.Plans {
			numbers = append(numbers, p.Number)
		}
		for _, r := range got.Routes {
			ids = append(ids, r.ID)
		}
		if text := fmt.Sprint(numbers, got.NextNumber, ids); text != c.want {
			t.Errorf("%s: got %s, want %s", name, text, c.want)
		}
	}
}

// A number or an ID that no current one has, or that is there twice, is refused.
func TestIdentifyRefuses(t *testing.T) {
	current := &Set{NextNumber: 2, Plans: []Plan{{Number: 1, Name: "free"}},
		Routes: []limits.Route{{ID: "search", Name: "search"}}}
	_, err := Identify(Set{
		Plans:  []Plan{{Number: 1, Name: "a"}, {Number: 1, Name: "b"}, {Number: 9, Name: "c"}},
		Routes: []limits.Route{{ID: "search", Name: "a"}, {ID: "search", Name: "b"}, {ID: "x", Name: "c"}},
	}, current)
	invalid, ok := errors.AsType[*InvalidError](err)
	if !ok {
		t.Fatalf("got %v, want an InvalidError", err)
	}
	var fields []string
	for _, f := range invalid.Fields {
		fields = append(fields, f.Field)
	}
	want := []string{"plans[1].number", "plans[2].number", "routes[1].id", "routes[2].id"}
	if !slices.Equal(fields, want) {
		t.Errorf("got %v, want %v", fields, want)
	}
}
