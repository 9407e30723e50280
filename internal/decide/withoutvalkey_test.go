package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

const lifetime = 10 * time.Minute

// callersFixture has callers that were verified, on a clock that the test sets, and the
// policy set and rules for decide.
type callersFixture struct {
	*callers
	*clock
	set   *policy.Set
	rules []enforce.RuleLimits
}

func newCallersFixture(plans ...policy.Plan) *callersFixture {
	c := newClock()
	return &callersFixture{newCallers(lifetime, c.now), c, &policy.Set{Version: 1, Plans: plans}, nil}
}

func (p *callersFixture) remember(call enforce.Call, proof secretHash, result enforce.Result) {
	p.callers.remember(call, proof, p.clock.now(), result)
}

func perMinute(n int64) limiter.Limit { return limiter.Limit{Requests: n, Window: time.Minute} }

var (
	secret      = secretHash{1}
	otherSecret = secretHash{2}
	firstCall   = enforce.Call{Kind: policy.APIKey, Subject: "caller"}
	costOne     = enforce.RouteMatch{SetVersion: 1, Cost: 1}
)

// resultOn returns Valkey's result for a call by a caller with these limits and this
// plan.
func resultOn(plan string, limits ...limiter.Limit) enforce.Result {
	result := enforce.Result{Allowed: true, WouldAllow: true, Name: "Ada", Plan: plan, Source: "plan",
		SetVersion: 1, KeyVersion: 1}
	for _, l := range limits {
		result.Limits = append(result.Limits,
			enforce.LimitState{Usage: limiter.Usage{Limit: l}, Scope: policy.ScopeKey, Mode: policy.Enforce})
	}
	return result
}

// decide decides a call without access lists.
func (p *callersFixture) decide(call enforce.Call, proof secretHash,
	match enforce.RouteMatch) enforce.Result {
	result, err := p.callers.decide(call, proof, p.set, match, p.rules, nil)
	if err != nil {
		panic(err) // only access lists cause an error
	}
	return result
}

// expect decides len(want) calls and compares which were allowed, as in "yyn". It returns
// the last result.
func (p *callersFixture) expect(t *testing.T, call enforce.Call, proof secretHash, match enforce.RouteMatch,
	want string) enforce.Result {
	t.Helper()
	var got strings.Builder
	var last enforce.Result
	for range want {
		last = p.decide(call, proof, match)
		if !last.Degraded {
			t.Error("a decision without Valkey is not marked Degraded")
		}
		if last.Allowed == (last.RetryAfter() > 0) {
			t.Errorf("allowed is %t with RetryAfter %s", last.Allowed, last.RetryAfter())
		}
		got.WriteString(map[bool]string{true: "y", false: "n"}[last.Allowed])
	}
	if got.String() != want {
		t.Errorf("allowed %s, want %s", got.String(), want)
	}
	return last
}

// The plan's Degraded determines what happens to its callers. The default is Closed.
func TestDegradedModes(t *testing.T) {
	for mode, want := range map[policy.Degraded]string{"": "nnn", policy.Closed: "nnn", policy.Open: "yyy",
		policy.Local: "yyn"} {
		p := newCallersFixture(policy.Plan{Name: "free", Degraded: mode, Share: 50})
		p.remember(firstCall, secret, resultOn("free", perMinute(4)))
		last := p.expect(t, firstCall, secret, costOne, want)
		if last.Name != "Ada" || last.Plan != "free" || last.ID != "caller" || last.KeyVersion != 1 ||
			last.SetVersion != 1 {
			t.Errorf("%q: got %+v, want the caller's name, plan, ID and versions", mode, last)
		}
	}
}

// A caller that Valkey did not verify lately, with exactly this secret, is denied under
// every plan.
func TestOnlyVerifiedCallersPass(t *testing.T) {
	open := policy.Plan{Name: "free", Degraded: policy.Open}
	for name, c := range map[string]struct {
		prepare func(*callersFixture)
		proof   secretHash
		want    string
	}{
		"never seen": {func(*callersFixture) {}, secret, "n"},
		"known": {func(p *callersFixture) {
			p.remember(firstCall, secret, resultOn("free", perMinute(4)))
		}, secret, "y"},
		"wrong secret": {func(p *callersFixture) {
			p.remember(firstCall, secret, resultOn("free", perMinute(4)))
		}, otherSecret, "n"},
		"no secret": {func(p *callersFixture) {
			p.remember(firstCall, secret, resultOn("free", perMinute(4)))
		}, secretHash{}, "n"},
		"within the lifetime": {func(p *callersFixture) {
			p.remember(firstCall, secret, resultOn("free", perMinute(4)))
			p.advance(lifetime - 1)
		}, secret, "y"},
		"after the lifetime": {func(p *callersFixture) {
			p.remember(firstCall, secret, resultOn("free", perMinute(4)))
			p.advance(lifetime)
		}, secret, "n"},
		"verified again": {func(p *callersFixture) {
			p.remember(firstCall, secret, resultOn("free", perMinute(4)))
			p.advance(lifetime / 2)
			p.remember(firstCall, secret, resultOn("free", perMinute(4)))
			p.advance(lifetime / 2)
		}, secret, "y"},
		"revoked": {func(p *callersFixture) {
			p.remember(firstCall, secret, resultOn("free", perMinute(4)))
			p.forget(firstCall, secret)
		}, secret, "n"},
		"revoked, no secret": {func(p *callersFixture) {
			p.remember(firstCall, secret, resultOn("free", perMinute(4)))
			p.forget(firstCall, secret)
		}, secretHash{}, "n"},
		"another secret refused": {func(p *callersFixture) {
			p.remember(firstCall, secret, resultOn("free", perMinute(4)))
			p.forget(firstCall, otherSecret)
		}, secret, "y"},
		"banned": {func(p *callersFixture) {
			p.remember(firstCall, secret, resultOn("free", perMinute(4)))
			p.remember(firstCall, secret, enforce.Result{Plan: "free", BannedUntil: p.Add(time.Hour)})
		}, secret, "n"},
		"deleted plan": {func(p *callersFixture) {
			p.remember(firstCall, secret, resultOn("deleted", perMinute(4)))
		}, secret, "n"},
		"previous secret within its grace": {func(p *callersFixture) {
			p.remember(firstCall, otherSecret, resultOn("free", perMinute(4)))
			p.remember(firstCall, secret, resultOn("free", perMinute(4)))
		}, otherSecret, "y"},
		"secret before the last two": {func(p *callersFixture) {
			p.remember(firstCall, secret, resultOn("free", perMinute(4)))
			for i := range byte(2) {
				p.advance(1)
				p.remember(firstCall, secretHash{3 + i}, resultOn("free", perMinute(4)))
			}
		}, secret, "n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newCallersFixture(open)
			c.prepare(p)
			p.expect(t, firstCall, c.proof, costOne, c.want)
		})
	}
}

// An address has no secret to verify. One that this process does not know passes if the
// plan of addresses is open, unless Valkey refused it or its record has changed since.
func TestUnknownAddresses(t *testing.T) {
	address := enforce.Call{Kind: policy.Address, Subject: "address"}
	for name, c := range map[string]struct {
		degraded policy.Degraded
		prepare  func(*callersFixture)
		call     enforce.Call
		want     string
	}{
		"open":   {policy.Open, nil, address, "yyy"},
		"local":  {policy.Local, nil, address, "nnn"},
		"closed": {policy.Closed, nil, address, "nnn"},
		"an API key, open": {policy.Open, nil,
			enforce.Call{Kind: policy.APIKey, Subject: "address"}, "n"},
		"a token, open": {policy.Open, nil, enforce.Call{Kind: policy.Token, Subject: "address"}, "n"},
		"known before the lifetime": {policy.Open, func(p *callersFixture) {
			p.remember(address, secretHash{}, resultOn("free", perMinute(4)))
			p.advance(lifetime)
		}, address, "y"},
		"banned": {policy.Open, func(p *callersFixture) {
			p.remember(address, secretHash{}, enforce.Result{Plan: "free", BannedUntil: p.Add(time.Hour)})
		}, address, "n"},
		"revoked": {policy.Open, func(p *callersFixture) { p.forget(address, secretHash{}) }, address, "n"},
		"its record expired": {policy.Open, func(p *callersFixture) {
			p.remember(address, secretHash{}, resultOn("free", perMinute(4)))
			k, _ := p.known.Get(address.Subject)
			k.proofs[0].validFor = time.Minute
			p.advance(time.Minute)
		}, address, "n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newCallersFixture(policy.Plan{Name: "free", Degraded: c.degraded, Share: 100,
				Limits: []limiter.Limit{perMinute(2)}})
			p.set.AddressPlan, p.set.TokenPlan = "free", "free"
			if c.prepare != nil {
				c.prepare(p)
			}
			last := p.expect(t, c.call, secretHash{}, costOne, c.want)
			if last.Allowed && (last.ID != "address" || last.Plan != "free") {
				t.Errorf("got %+v, want the caller's ID and plan", last)
			}
			p.set.AddressPlan = "deleted"
			if c.prepare == nil {
				p.expect(t, c.call, secretHash{}, costOne, "n")
			}
		})
	}
}

// A token that names another plan than the verified one is denied.
func TestTokensOfAnotherPlan(t *testing.T) {
	p := newCallersFixture(policy.Plan{Name: "free", Degraded: policy.Open},
		policy.Plan{Name: "pro", Degraded: policy.Open})
	bearer := enforce.Call{Kind: policy.Token, Subject: "jwt", Plan: "free"}
	p.remember(bearer, secretHash{}, resultOn("free", perMinute(4)))
	p.expect(t, bearer, secretHash{}, costOne, "y")
	bearer.Plan = "pro"
	p.expect(t, bearer, secretHash{}, costOne, "n")
}

// Without a policy set every caller is denied.
func TestWithoutASet(t *testing.T) {
	p := newCallersFixture()
	p.set = nil
	p.remember(firstCall, secret, resultOn("free", perMinute(4)))
	p.expect(t, firstCall, secret, costOne, "n")
}

// A share of a limit is rounded down and is at least 1. Retry-After is exact. The share
// is that of the limits in force, which may be an override's.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		requests int64
		share    int
		want     string
	}{{10, 25, "yyn"}, {10, 1, "yn"}, {2, 100, "yyn"}, {1, 50, "yn"}} {
		p := newCallersFixture(policy.Plan{Name: "free", Degraded: policy.Local, Share: c.share,
			Limits: []limiter.Limit{perMinute(1000)}})
		p.remember(firstCall, secret, resultOn("free", perMinute(c.requests)))
		last := p.expect(t, firstCall, secret, costOne, c.want)
		if last.RetryAfter() != time.Minute || last.Limits[0].Remaining != 0 {
			t.Errorf("%d%% of %d: got %+v, want RetryAfter of a minute and 0 remaining", c.share, c.requests,
				last)
		}
		p.advance(time.Minute - time.Microsecond)
		p.expect(t, firstCall, secret, costOne, "n")
		p.advance(time.Microsecond)
		p.expect(t, firstCall, secret, costOne, "y")
	}
}

// Calls admitted in one outage still count in the next, whatever Valkey returned in
// between.
func TestCountsContinueAfterAnOutage(t *testing.T) {
	p := newCallersFixture(policy.Plan{Name: "free", Degraded: policy.Local, Share: 50})
	p.remember(firstCall, secret, resultOn("free", perMinute(4)))
	p.expect(t, firstCall, secret, costOne, "yyn")
	p.advance(time.Second)
	p.remember(firstCall, secret, resultOn("free", perMinute(4)))
	p.expect(t, firstCall, secret, costOne, "n")
	p.remember(firstCall, secret, func() enforce.Result {
		c := resultOn("free", perMinute(6))
		c.KeyVersion = 2
		return c
	}())
	p.expect(t, firstCall, secret, costOne, "yn")
}

// Shared limits apply too: the cost is taken from all limits or from none. Shared limits
// in shadow mode are only reported.
func TestSharedLimitsWithoutValkey(t *testing.T) {
	p := newCallersFixture(policy.Plan{Name: "free", Degraded: policy.Local, Share: 100})
	second := enforce.Call{Kind: policy.APIKey, Subject: "second"}
	for _, call := range []enforce.Call{firstCall, second} {
		p.remember(call, secret, resultOn("free", perMinute(3)))
	}
	p.rules = []enforce.RuleLimits{{State: "ip", Scope: policy.ScopeIP, Mode: policy.Enforce,
		Limits: []limiter.Limit{perMinute(2)}}}
	last := p.expect(t, firstCall, secret, costOne, "yyn")
	if own := last.Limits[0]; own.Remaining != 1 || last.Limits[1].Scope != policy.ScopeIP {
		t.Errorf("got %+v, want a denial by the address's limit that takes nothing", last)
	}
	p.expect(t, second, secret, costOne, "n")
	p.rules[0].Mode = policy.Shadow
	if last := p.expect(t, firstCall, secret, costOne, "y"); last.WouldAllow {
		t.Error("WouldAllow is true above a limit in shadow mode")
	}
	p.expect(t, firstCall, secret, costOne, "n")
	p.rules = nil
	p.expect(t, second, secret, costOne, "yyyn")
}

// A limit in shadow mode denies no call, and a call that exceeds it takes nothing from
// it.
func TestShadowWithoutValkey(t *testing.T) {
	p := newCallersFixture(policy.Plan{Name: "free", Degraded: policy.Local, Share: 100})
	shadow := perMinute(1)
	shadow.Shadow = true
	p.remember(firstCall, secret, resultOn("free", perMinute(3), shadow))
	p.rules = []enforce.RuleLimits{{State: "all", Scope: policy.ScopeGlobal, Mode: policy.Enforce,
		Limits: []limiter.Limit{perMinute(9), shadow}}}
	left := func(call enforce.Call) (enforce.Result, string) {
		last := p.decide(call, secret, costOne)
		left := ""
		for _, l := range last.Limits {
			left += fmt.Sprint(" ", l.Remaining)
		}
		return last, left
	}
	for i, want := range []string{" 2 0 8 0", " 1 0 7 0", " 0 0 6 0", " 0 0"} {
		last, got := left(firstCall)
		if last.Allowed != (i < 3) || last.WouldAllow != (i == 0) || got != want {
			t.Errorf("call %d: got %s remaining of %+v, want %s", i, got, last, want)
		}
	}
	second := enforce.Call{Kind: policy.APIKey, Subject: "second"}
	p.remember(second, secret, resultOn("free", perMinute(3), shadow))
	rules := p.rules
	p.rules = nil
	p.expect(t, second, secret, costOne, "y")
	p.rules = rules
	p.rules[0].Limits[0].Requests = 3 // all used
	if last, got := left(second); last.Allowed || got != " 2 0 0 0" {
		t.Errorf("denied by the limit on all callers: got %s remaining of %+v", got, last)
	}
}

// The keys of a group take from this environment's share of the group's limits and from
// their own. Keys of another group or plan do not.
func TestGroupsWithoutValkey(t *testing.T) {
	p := newCallersFixture(policy.Plan{Name: "free", Number: 1, Degraded: policy.Local, Share: 50,
		PerGroup: []limiter.Limit{perMinute(8)}}, policy.Plan{Name: "pro", Number: 2, Degraded: policy.Local,
		Share: 100, PerGroup: []limiter.Limit{perMinute(1)}})
	known := func(subject, plan, group string) enforce.Call {
		call := enforce.Call{Kind: policy.APIKey, Subject: subject}
		result := resultOn(plan, perMinute(6))
		result.Group = group
		p.remember(call, secret, result)
		return call
	}
	one, two := known("one", "free", "acme"), known("two", "free", "acme")
	p.expect(t, one, secret, costOne, "yyyn")
	last := p.expect(t, two, secret, costOne, "yn")
	if own, group := last.Limits[0], last.Limits[1]; own.Remaining != 2 || group.Scope != policy.ScopeGroup ||
		group.Remaining != 0 || last.Group != "acme" {
		t.Errorf("got %+v, want a denial by the group of acme", last)
	}
	p.expect(t, known("three", "free", "zebra"), secret, costOne, "yyyn")
	p.expect(t, known("four", "free", ""), secret, costOne, "yyyn")
	p.expect(t, known("five", "pro", "acme"), secret, costOne, "yn")
}

// A caller over its own share never touches a shared limit.
func TestOwnLimitsGoFirst(t *testing.T) {
	p := newCallersFixture(policy.Plan{Name: "free", Degraded: policy.Local, Share: 100})
	second := enforce.Call{Kind: policy.APIKey, Subject: "second"}
	for _, call := range []enforce.Call{firstCall, second} {
		p.remember(call, secret, resultOn("free", perMinute(2)))
	}
	// CountDenied makes every touch count.
	attempts := []limiter.Limit{{Requests: 4, Window: time.Minute, CountDenied: true}}
	p.rules = []enforce.RuleLimits{{State: "all", Scope: policy.ScopeGlobal, Mode: policy.Enforce,
		Limits: attempts}}
	if last := p.expect(t, firstCall, secret, costOne, "yynnnnnn"); len(last.Limits) != 1 {
		t.Errorf("got %+v, want the caller's own limit alone", last)
	}
	p.expect(t, second, secret, costOne, "yy")
}

// Calls of cost 0 and callers without limits are not limited. A cost above the share is
// denied until Valkey is available.
func TestCosts(t *testing.T) {
	p := newCallersFixture(policy.Plan{Name: "free", Degraded: policy.Local, Share: 50})
	p.remember(firstCall, secret, resultOn("free", perMinute(4)))
	free, costly := costOne, costOne
	free.Cost, costly.Cost = 0, 3
	p.expect(t, firstCall, secret, free, "yyyyy")
	p.expect(t, firstCall, secret, costly, "nn")
	p.expect(t, firstCall, secret, costOne, "yyn")
	p.remember(firstCall, secret, resultOn("free")) // no limits
	p.expect(t, firstCall, secret, costOne, "yyyyy")
}

// The least recently used callers are forgotten when there are too many. They are denied,
// never allowed uncounted.
func TestCallersAreBounded(t *testing.T) {
	p := newCallersFixture(policy.Plan{Name: "free", Degraded: policy.Local, Share: 100})
	p.remember(firstCall, secret, resultOn("free", perMinute(2)))
	for i := range 10_000 {
		p.remember(enforce.Call{Kind: policy.APIKey, Subject: fmt.Sprint(i)}, secret,
			resultOn("free", perMinute(2)))
	}
	p.expect(t, firstCall, secret, costOne, "n")
	p.expect(t, enforce.Call{Kind: policy.APIKey, Subject: "9999"}, secret, costOne, "yyn")
}
