package routecount

import (
	"strings"
	"testing"
)

// The stored form of a route stays the same between releases.
func TestStoredRoute(t *testing.T) {
	r := Route{"free", "a1", "prod", "GET", "/orders/{id}"}
	for stored, want := range map[string]Route{
		"\x00\x04free\x02a1\x04prod\x03GET\x0c/orders/{id}": r, "\x00\x04free": {Plan: "free"},
	} {
		if got, ok := parse(stored); !ok || got != want || want.Field() != stored {
			t.Errorf("%q: got %+v, %t, stored as %q; want %+v", stored, got, ok, want.Field(), want)
		}
	}
	if got, want := Name(5_984_576), "tg:{021}:usage-r5984576"; got != want {
		t.Errorf("key of a period: got %s, want %s", got, want)
	}
}

// parse returns the route that Field encoded, and the plan of a field with more texts, as
// a later release may write it. Malformed fields cause no panic.
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
			t.Errorf("got %+v, %t; want %+v", got, ok, r)
		}
		if later, ok := parse(r.Field() + "\x03new"); !ok || later.Plan != plan {
			t.Errorf("with one more text: got %+v, %t; want plan %q", later, ok, plan)
		}
		_, _ = parse(field)
	})
}
