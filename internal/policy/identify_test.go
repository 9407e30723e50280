package policy

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

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

// An override that names a route which was renamed goes on limiting its calls, by the same
// count. Once another route has the former name, that one is meant.
func TestOverridesFollowRenamedRoutes(t *testing.T) {
	limit := limits.Limit{Requests: 5, Window: time.Minute, On: "search", Except: []string{"health"}}
	set := &Set{NextNumber: 2, Plans: []Plan{{Number: 1, Name: "free"}},
		Routes:         []limits.Route{{ID: "search", Name: "search"}, {ID: "health", Name: "health"}},
		GroupOverrides: map[string]Override{"acme": {Limits: []limits.Limit{limit}}}}
	key := Key{PlanNumber: 1, Plan: "free", Override: &Override{Limits: []limits.Limit{limit}}}
	rename := func(names ...string) {
		next := *set
		next.Routes = nil
		for i, name := range names {
			r := limits.Route{Name: name}
			if i < len(set.Routes) {
				r.ID = set.Routes[i].ID
			}
			next.Routes = append(next.Routes, r)
		}
		identified, err := Identify(next, set)
		if err != nil {
			t.Fatal(err)
		}
		set = identified
	}
	want := func(on, except string) {
		t.Helper()
		for name, k := range map[string]Key{"key": key, "group": {Group: "acme"}} {
			o, _ := set.OverrideOf(k, time.Now())
			if o == nil || o.Limits[0].On != on || o.Limits[0].Except[0] != except {
				t.Errorf("%s: got %+v, want on %s, except %s", name, o, on, except)
			}
		}
	}
	want("search", "health")
	rename("find", "health")
	rename("lookup", "health")
	want("lookup", "health")
	rename("lookup", "live")
	want("lookup", "live")
	if key.Override.Limits[0].On != "search" || key.Override.Limits[0].Except[0] != "health" {
		t.Errorf("the key's own override became %+v", key.Override.Limits)
	}
	rename("lookup", "live", "search")
	if o, _ := set.OverrideOf(key, time.Now()); o.Limits[0].On != "search" {
		t.Errorf("a new route has the former name: got %+v, want on search", o.Limits)
	}
	for i := range 2 * limits.MaxFormer {
		rename(fmt.Sprint("lookup", i), "live", "search")
	}
	if n := len(set.Routes[0].Former); n != limits.MaxFormer {
		t.Errorf("%d former names, want %d", n, limits.MaxFormer)
	}
}
