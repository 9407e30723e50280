//go:build unix

package attacks

import (
	"net/http"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// A settlement gives back exactly the unused cost, whatever calls came in between.
func TestAttackRefunds(t *testing.T) {
	a, i := attack(t, "refunds that are not exact",
		"30 calls of cost 4,000 settled with 500 in another order, with calls in between, at limits "+
			"of 1,000,000 of one caller and of all")
	per := limiter.Limit{Requests: 1_000_000, Window: 7 * time.Minute}
	i.rules(t, policy.Route{
		Name: "refunds", Pattern: route.Pattern{Path: "/refunds"}, Cost: 4000, Settle: true,
		PerKey: []limiter.Limit{per}, Shared: []limiter.Limit{per},
	})
	const calls, cost, used = 30, 4000, 500
	token := i.machine(t, "settle")
	_, secret := i.key(t, wide)
	var open []string
	call := func() reply { return i.rest.get(t, "/refunds", "x-api-key", secret) }
	for range calls {
		open = append(open, call().reservation(t))
	}
	want := per.Requests - calls*cost
	for n := range calls {
		a.probe()
		at := n * 7 % calls // every one once, since 7 and 30 have no factor in common
		if _, s := i.settle(t, token, open[at], used); s.Partial || s.Actual != used || s.Reserved != cost {
			t.Errorf("settlement %d: %+v", n+1, s)
		}
		got := call()
		want += cost - used - cost
		for _, scope := range []string{"route ", "route-all "} {
			if left := got.left(t, scope); left != want {
				t.Errorf("after settlement %d %s has %d left, want %d", n+1, scope, left, want)
			}
		}
	}
}

// A call that a shared limit denies takes nothing from the caller's own limit.
func TestAttackDeniedCallsCost(t *testing.T) {
	a, i := attack(t, "a denied call that costs",
		"10 calls of cost 4,000 that a limit of all callers denies, against the caller's own limit of "+
			"1,000,000")
	own := limiter.Limit{Requests: 1_000_000, Window: 7 * time.Minute}
	i.rules(t, policy.Route{
		Name: "denied", Pattern: route.Pattern{Path: "/denied"}, Cost: 4000,
		PerKey: []limiter.Limit{own}, Shared: []limiter.Limit{{Requests: 8000, Window: 5 * time.Minute}},
	})
	_, secret := i.key(t, wide)
	_, other := i.key(t, wide)
	i.rest.get(t, "/denied", "x-api-key", secret)
	i.rest.get(t, "/denied", "x-api-key", other)
	for range 10 {
		a.probe()
		got := i.rest.get(t, "/denied", "x-api-key", secret)
		if left := got.left(t, "route "); got.status != http.StatusTooManyRequests ||
			left != own.Requests-4000 {
			t.Errorf("%d, %d left, want 429 and %d", got.status, left, own.Requests-4000)
		}
	}
	i.edit(t, func(s *policy.Set) {
		for n := range s.Routes {
			if s.Routes[n].Name == "denied" {
				s.Routes[n].Shared = nil
			}
		}
	})
	got := i.rest.get(t, "/denied", "x-api-key", secret)
	if left := got.left(t, "route "); left != own.Requests-2*4000 {
		t.Errorf("%d left, want %d", left, own.Requests-2*4000)
	}
}
