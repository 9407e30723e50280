package compiled

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

func perMinute(requests int64) []limiter.Limit {
	return []limiter.Limit{{Requests: requests, Window: time.Minute}}
}

func compile(t *testing.T, set policy.Set) *Set {
	t.Helper()
	compiled, err := New(&set)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func wantCause(t *testing.T, err error, want cause.Cause) {
	t.Helper()
	var refusal *policy.RefusedError
	if !errors.As(err, &refusal) || refusal.Cause != want || refusal.Verified {
		t.Errorf("got %v, want %v of nobody in particular", err, want)
	}
}

// A route holds for a call that no list of addresses refuses; a path that can be read in
// two ways has none.
func TestRouteFor(t *testing.T) {
	set := compile(t, policy.Set{
		Routes: []policy.Route{
			{Name: "orders", Pattern: route.Pattern{Path: "/orders"}, Cost: 2},
			{Name: "chat", Pattern: route.Pattern{Path: "/chat"}, Cost: 3},
		},
		Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		Deny:  []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")},
	})
	good := netip.MustParseAddr("192.0.2.1")
	for path, cost := range map[string]int64{"/orders": 2, "/chat": 3, "/else": 1} {
		call := route.Call{Method: "GET", Path: path}
		r, err := set.RouteFor(call, good)
		if err != nil || r.Cost != cost || set.Named(r.Name) != set.Tagged(r.Tag) {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
		if mapped, err := set.RouteFor(call, netip.MustParseAddr("::ffff:192.0.2.1")); mapped != r {
			t.Errorf("%s from an IPv4 address in IPv6 form: %+v, %v", path, mapped, err)
		}
		for _, address := range []netip.Addr{{}, netip.MustParseAddr("192.0.2.9"),
			netip.MustParseAddr("2001:db8::1")} {
			_, err := set.RouteFor(call, address)
			wantCause(t, err, cause.Address)
		}
	}
	_, err := set.RouteFor(route.Call{Method: "GET", Path: "/orders;x=1"}, good)
	wantCause(t, err, cause.Malformed)
}

// A key has a plan of its own; a token names one or has the default; addresses share one.
func TestPlanFor(t *testing.T) {
	set := compile(t, policy.Set{TokenPlan: "free", Plans: []policy.Plan{
		{Name: "free", Number: 1, Limits: perMinute(9)}, {Name: "pro", Number: 2, Limits: perMinute(9)}}})
	for _, c := range []struct {
		kind policy.Kind
		name string
		want int
	}{{policy.APIKey, "pro", 0}, {policy.Token, "pro", 2}, {policy.Token, "", 1}} {
		if got, err := set.PlanFor(c.kind, c.name); err != nil || got != c.want {
			t.Errorf("%s %q: %d, %v", c.kind, c.name, got, err)
		}
	}
	_, err := set.PlanFor(policy.Token, "gone")
	wantCause(t, err, cause.Access)
	_, err = set.PlanFor(policy.Address, "pro")
	wantCause(t, err, cause.Access)
}

// Plans close the routes that they do not list, and limit groups unless they are off.
func TestPlans(t *testing.T) {
	set := compile(t, policy.Set{Plans: []policy.Plan{
		{Name: "all", Number: 1, Limits: perMinute(9), PerGroup: perMinute(20)},
		{Name: "some", Number: 2, Allow: []route.Pattern{{Path: "/orders"}}},
		{Name: "off", Number: 3, PerGroup: perMinute(20), Mode: policy.Off},
	}})
	for path, want := range map[string][]int{"/orders": nil, "/chat": {2}} {
		if got := set.ClosedPlans(route.Call{Method: "GET", Path: path}); !slices.Equal(got, want) {
			t.Errorf("%s is closed by %v, want %v", path, got, want)
		}
	}
	for number, want := range map[int]bool{1: true, 2: false, 3: false, 4: false} {
		if got := set.GroupLimit(number); (got != nil) != want {
			t.Errorf("plan %d limits groups to %+v", number, got)
		}
	}
}

// A step notes that its cost may be given back when something can deny the call later, or
// settle it. What is off counts nothing.
func TestReserves(t *testing.T) {
	shared := policy.Scope{Limits: perMinute(5)}
	off := policy.Scope{Limits: perMinute(5), Mode: policy.Off}
	routed := func(r policy.Route) policy.Set {
		r.Name, r.Cost = "r", 1
		return policy.Set{Routes: []policy.Route{r}}
	}
	for name, c := range map[string]struct {
		set  policy.Set
		want bool
	}{
		"nothing shared":   {policy.Set{Global: off, PerIP: off}, false},
		"own on the route": {routed(policy.Route{PerKey: perMinute(1)}), false},
		"all calls":        {policy.Set{Global: shared}, true},
		"addresses":        {policy.Set{PerIP: shared}, true},
		"the route":        {routed(policy.Route{Shared: perMinute(1)}), true},
		"settled":          {routed(policy.Route{Settle: true}), true},
		"groups":           {policy.Set{Plans: []policy.Plan{{Number: 1, PerGroup: perMinute(5)}}}, true},
	} {
		set := compile(t, c.set)
		r, err := set.RouteFor(route.Call{Method: "GET", Path: "/"}, netip.Addr{})
		if err != nil || set.Reserves(r) != c.want {
			t.Errorf("%s: %t, %v", name, set.Reserves(r), err)
		}
	}
}
