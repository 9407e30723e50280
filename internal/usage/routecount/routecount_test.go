package routecount

import (
	"strings"
	"testing"
)

// What this release stores of a route is what later ones read.
func TestStoredRoute(t *testing.T) {
	r := Route{"free", "a1", "prod", "GET", "/orders/{id}"}
	for stored, want := range map[string]Route{
		"\x00\x04free\x02a1\x04prod\x03GET\x0c/orders/{id}": r, "\x00\x04free": {Plan: "free"},
	} {
		if got, ok := parse(stored); !ok || got != want || want.Field() != stored {
			t.Errorf("%q is %+v, %t, and is stored as %q", stored, got, ok, want.Field())
		}
	}
	if name := Name(5_984_576); name != "tg:{021}:usage-r5984576" {
		t.Errorf("a period is stored as %s", name)
	}
}

// A field is read as it was written. One of another release counts under its plan, and
// bytes that are no field count for nothing.
func FuzzRoute(f *testing.F) {
	f.Add("free", "a", "prod", "GET", "/orders/{id}", "\x00\x04free\x01")
	f.Add("", "", "", "", strings.Repeat("/x", 200), "\x00\x00")
	f.Fuzz(func(t *testing.T, plan, api, stage, method, path, field string) {
		r := Route{plan, api, stage, method, path}
		if len(plan) > MaxPlan {
			return
		}
		got, ok := parse(r.Field())
		if max(len(api), len(stage), len(method)) > maxText {
			r = Route{Plan: plan}
		} else if len(path) > maxText {
			r.Path = "*"
		}
		if !ok || got != r {
			t.Errorf("%+v became %+v, %t", r, got, ok)
		}
		if later, ok := parse(r.Field() + "\x03new"); !ok || later.Plan != plan {
			t.Errorf("with one more text: %+v, %t", later, ok)
		}
		_, _ = parse(field)
	})
}
