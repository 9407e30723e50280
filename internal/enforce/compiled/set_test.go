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

// wantCause requires a refusal with a cause, for a caller whose credential was not
// verified.
func wantCause(t *testing.T, err error, want cause.Cause) {
	t.Helper()
	var refusal *policy.RefusedError
	if !errors.As(err, &refusal) || refusal.Cause != want || refusal.Verified {
		t.Errorf("got %v, want an unverified refusal with cause %v", err, want)
	}
}

// RouteFor returns the route of a call, and refuses a path that can be read in two ways.
// CheckAddress refuses an address by the lists.
func TestRouteFor(t *testing.T) {
	set := compile(t, policy.Set{
		Routes: []policy.Route{
			{Name: "orders", Pattern: route.Pattern{Path: "/orders"}, Cost: 2},
			{Name: "chat", Pattern: route.Pattern{Path: "/chat"}, Cost: 3},
		},
		Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		Deny:  []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")},
	})
	admitted := netip.MustParseAddr("192.0.2.1")
	for path, cost := range map[string]int64{"/orders": 2, "/chat": 3, "/else": 1} {
		call := route.Call{Method: "GET", Path: path}
		r, err := set.RouteFor(call)
		if err != nil || r.Cost != cost || set.Named(r.Name) != set.Tagged(r.Tag) {
			t.Errorf("%s: got %+v, %v, want cost %d", path, r, err, cost)
		}
		for _, address := range []netip.Addr{admitted, netip.MustParseAddr("::ffff:192.0.2.1")} {
			if err := set.CheckAddress(r, address); err != nil {
				t.Errorf("%s from %s: got %v, want no error", path, address, err)
			}
		}
		for _, address := range []netip.Addr{{}, netip.MustParseAddr("192.0.2.9"),
			netip.MustParseAddr("2001:db8::1")} {
			wantCause(t, set.CheckAddress(r, address), cause.Address)
		}
	}
	_, err := set.RouteFor(route.Call{Method: "GET", Path: "/orders;x=1"})
	wantCause(t, err, cause.Malformed)
}

// A call without an address is refused where the policy decides by address, and only
// there.
func TestNoAddress(t *testing.T) {
	list := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	perIP := func(mode policy.Mode) policy.Scope { return policy.Scope{Limits: perMinute(2), Mode: mode} }
	for name, c := range map[string]struct {
		set  policy.Set
		want bool
	}{
		"nothing":         {policy.Set{Global: perIP(policy.Enforce)}, false},
		"deny":            {policy.Set{Deny: list}, true},
		"allow":           {policy.Set{Allow: list}, true},
		"exempt":          {policy.Set{Exempt: list}, true},
		"limit":           {policy.Set{PerIP: perIP("")}, true},
		"limit in shadow": {policy.Set{PerIP: perIP(policy.Shadow)}, false},
		"limit of the route": {policy.Set{Routes: []policy.Route{
			{Name: "r", Pattern: route.Pattern{Path: "/orders"}, Cost: 1, PerIP: perMinute(2)}}}, true},
		"limit of another route": {policy.Set{Routes: []policy.Route{
			{Name: "r", Pattern: route.Pattern{Path: "/else"}, Cost: 1, PerIP: perMinute(2)}}}, false},
	} {
		set := compile(t, c.set)
		r, err := set.RouteFor(route.Call{Method: "GET", Path: "/orders"})
		if err != nil {
			t.Fatal(err)
		}
		err = set.CheckAddress(r, netip.Addr{})
		refusal, _ := errors.AsType[*policy.RefusedError](err)
		if (refusal != nil) != c.want || c.want && (refusal.Cause != cause.Address || refusal.Reason == "") {
			t.Errorf("%s: got %#v, want a refusal with a reason: %t", name, refusal, c.want)
		}
	}
}

// PlanFor returns 0 for an API key, and the named plan or TokenPlan for a token. It
// refuses an unknown plan, and addresses without AddressPlan.
func TestPlanFor(t *testing.T) {
	set := compile(t, policy.Set{TokenPlan: "free", Plans: []policy.Plan{
		{Name: "free", Number: 1, Limits: perMinute(9)}, {Name: "pro", Number: 2, Limits: perMinute(9)}}})
	for _, c := range []struct {
		kind policy.Kind
		name string
		want int
	}{{policy.APIKey, "pro", 0}, {policy.Token, "pro", 2}, {policy.Token, "", 1}} {
		if got, err := set.PlanFor(c.kind, c.name); err != nil || got != c.want {
			t.Errorf("%s %q: got %d, %v, want %d", c.kind, c.name, got, err, c.want)
		}
	}
	_, err := set.PlanFor(policy.Token, "gone")
	wantCause(t, err, cause.Access)
	_, err = set.PlanFor(policy.Address, "pro")
	wantCause(t, err, cause.Access)
}

// A plan with a list closes all other routes. A plan may limit groups.
func TestPlans(t *testing.T) {
	set := compile(t, policy.Set{Plans: []policy.Plan{
		{Name: "all", Number: 1, Limits: perMinute(9), PerGroup: perMinute(20)},
		{Name: "some", Number: 2, Allow: []route.Pattern{{Path: "/orders"}}},
	}})
	for path, want := range map[string][]int{"/orders": nil, "/chat": {2}} {
		if got := set.ClosedPlans(route.Call{Method: "GET", Path: path}); !slices.Equal(got, want) {
			t.Errorf("%s: got closed by %v, want %v", path, got, want)
		}
	}
	for number, want := range map[int]bool{1: true, 2: false, 3: false, 4: false} {
		if got := set.GroupLimit(number); (got != nil) != want {
			t.Errorf("plan %d: got limits on groups %+v, want any %t", number, got, want)
		}
	}
}

// Reserves is true if a shared limit may deny the call later, or if the route is settled.
func TestReserves(t *testing.T) {
	shared := policy.Scope{Limits: perMinute(5)}
	routed := func(r policy.Route) policy.Set {
		r.Name, r.Cost = "r", 1
		return policy.Set{Routes: []policy.Route{r}}
	}
	for name, c := range map[string]struct {
		set  policy.Set
		want bool
	}{
		"route limit on the caller": {routed(policy.Route{PerKey: perMinute(1)}), false},
		"limit on all callers":      {policy.Set{Global: shared}, true},
		"limit on addresses":        {policy.Set{PerIP: shared}, true},
		"shared limit on the route": {routed(policy.Route{Shared: perMinute(1)}), true},
		"settled route":             {routed(policy.Route{Settle: true}), true},
		"limit on groups": {
			policy.Set{Plans: []policy.Plan{{Number: 1, PerGroup: perMinute(5)}}}, true,
		},
	} {
		set := compile(t, c.set)
		r, err := set.RouteFor(route.Call{Method: "GET", Path: "/"})
		if err != nil || set.Reserves(r) != c.want {
			t.Errorf("%s: got %t, %v, want %t", name, set.Reserves(r), err, c.want)
		}
	}
}
