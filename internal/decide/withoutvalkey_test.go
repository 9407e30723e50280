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

// program remembers callers by a clock that is set by hand.
type program struct {
	*callers
	*clock
	set   *policy.Set
	rules []enforce.RuleLimits
}

func newProgram(plans ...policy.Plan) *program {
	c := newClock()
	return &program{newCallers(lifetime, c.now), c, &policy.Set{Version: 1, Plans: plans}, nil}
}

func perMinute(n int64) limiter.Limit { return limiter.Limit{Requests: n, Window: time.Minute} }

var (
	secret  = secretHash{1}
	another = secretHash{2}
	ada     = enforce.Call{Kind: policy.APIKey, Subject: "caller"}
	once    = enforce.RouteMatch{SetVersion: 1, Cost: 1}
)

// vouched is what the store says about a caller with these limits on the named plan.
func vouched(plan string, limits ...limiter.Limit) enforce.Result {
	checked := enforce.Result{Allowed: true, WouldAllow: true, Name: "Ada", Plan: plan, Source: "plan",
		SetVersion: 1, KeyVersion: 1}
	for _, l := range limits {
		checked.Limits = append(checked.Limits,
			enforce.LimitState{Usage: limiter.Usage{Limit: l}, Scope: policy.ScopeKey, Mode: policy.Enforce})
	}
	return checked
}

func (p *program) decide(call enforce.Call, proof secretHash, match enforce.RouteMatch) enforce.Result {
	checked, err := p.callers.decide(call, proof, p.set, match, p.rules, nil)
	if err != nil {
		panic(err) // no test here has access lists
	}
	return checked
}

// expect makes calls and compares which were allowed: "yyn".
func (p *program) expect(t *testing.T, call enforce.Call, proof secretHash, match enforce.RouteMatch,
	want string) enforce.Result {
	t.Helper()
	var got strings.Builder
	var last enforce.Result
	for range want {
		last = p.decide(call, proof, match)
		if !last.Degraded {
			t.Error("a decision without the store is not marked")
		}
		if last.Allowed == (last.RetryAfter() > 0) {
			t.Errorf("allowed %t, retry after %s", last.Allowed, last.RetryAfter())
		}
		got.WriteString(map[bool]string{true: "y", false: "n"}[last.Allowed])
	}
	if got.String() != want {
		t.Errorf("allowed: %s, want %s", got.String(), want)
	}
	return last
}

// A plan says what becomes of its callers; closed unless it says otherwise.
func TestPlansDecide(t *testing.T) {
	for mode, want := range map[policy.Degraded]string{"": "nnn", policy.Closed: "nnn", policy.Open: "yyy",
		policy.Local: "yyn"} {
		p := newProgram(policy.Plan{Name: "free", Degraded: mode, Share: 50})
		p.remember(ada, secret, vouched("free", perMinute(4)))
		last := p.expect(t, ada, secret, once, want)
		if last.Name != "Ada" || last.Plan != "free" || last.ID != "caller" || last.KeyVersion != 1 ||
			last.SetVersion != 1 {
			t.Errorf("%q: the caller is not told who it is: %+v", mode, last)
		}
	}
}

// Who was not vouched for lately, with exactly this secret, is denied under every plan.
func TestOnlyVerifiedCallersPass(t *testing.T) {
	open := policy.Plan{Name: "free", Degraded: policy.Open}
	for name, c := range map[string]struct {
		prepare func(*program)
		proof   secretHash
		want    string
	}{
		"never seen": {func(*program) {}, secret, "n"},
		"known": {func(p *program) {
			p.remember(ada, secret, vouched("free", perMinute(4)))
		}, secret, "y"},
		"wrong secret": {func(p *program) {
			p.remember(ada, secret, vouched("free", perMinute(4)))
		}, another, "n"},
		"no secret": {func(p *program) {
			p.remember(ada, secret, vouched("free", perMinute(4)))
		}, secretHash{}, "n"},
		"until the end": {func(p *program) {
			p.remember(ada, secret, vouched("free", perMinute(4)))
			p.pass(lifetime - 1)
		}, secret, "y"},
		"too long ago": {func(p *program) {
			p.remember(ada, secret, vouched("free", perMinute(4)))
			p.pass(lifetime)
		}, secret, "n"},
		"again since": {func(p *program) {
			p.remember(ada, secret, vouched("free", perMinute(4)))
			p.pass(lifetime / 2)
			p.remember(ada, secret, vouched("free", perMinute(4)))
			p.pass(lifetime / 2)
		}, secret, "y"},
		"revoked": {func(p *program) {
			p.remember(ada, secret, vouched("free", perMinute(4)))
			p.forget(ada, secret)
		}, secret, "n"},
		"revoked, no secret": {func(p *program) {
			p.remember(ada, secret, vouched("free", perMinute(4)))
			p.forget(ada, secret)
		}, secretHash{}, "n"},
		"somebody guessed": {func(p *program) {
			p.remember(ada, secret, vouched("free", perMinute(4)))
			p.forget(ada, another)
		}, secret, "y"},
		"banned": {func(p *program) {
			p.remember(ada, secret, vouched("free", perMinute(4)))
			p.remember(ada, secret, enforce.Result{Plan: "free", BannedUntil: p.Add(time.Hour)})
		}, secret, "n"},
		"plan is gone": {func(p *program) {
			p.remember(ada, secret, vouched("gone", perMinute(4)))
		}, secret, "n"},
		"rotated, in its grace": {func(p *program) {
			p.remember(ada, another, vouched("free", perMinute(4)))
			p.remember(ada, secret, vouched("free", perMinute(4)))
		}, another, "y"},
		"rotated thrice": {func(p *program) {
			p.remember(ada, secret, vouched("free", perMinute(4)))
			for i := range byte(2) {
				p.pass(1)
				p.remember(ada, secretHash{3 + i}, vouched("free", perMinute(4)))
			}
		}, secret, "n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(open)
			c.prepare(p)
			p.expect(t, ada, c.proof, once, c.want)
		})
	}
}

// A token names its plan: under another one its bearer was not verified.
func TestTokensOfAnotherPlan(t *testing.T) {
	p := newProgram(policy.Plan{Name: "free", Degraded: policy.Open},
		policy.Plan{Name: "pro", Degraded: policy.Open})
	bearer := enforce.Call{Kind: policy.Token, Subject: "jwt", Plan: "free"}
	p.remember(bearer, secretHash{}, vouched("free", perMinute(4)))
	p.expect(t, bearer, secretHash{}, once, "y")
	bearer.Plan = "pro"
	p.expect(t, bearer, secretHash{}, once, "n")
}

func TestWithoutASet(t *testing.T) {
	p := newProgram()
	p.set = nil
	p.remember(ada, secret, vouched("free", perMinute(4)))
	p.expect(t, ada, secret, once, "n")
}

// A share is rounded down, but at least 1; Retry-After is the model's; an override's
// limits are shared too.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		requests int64
		share    int
		want     string
	}{{10, 25, "yyn"}, {10, 1, "yn"}, {2, 100, "yyn"}, {1, 50, "yn"}} {
		p := newProgram(policy.Plan{Name: "free", Degraded: policy.Local, Share: c.share,
			Limits: []limiter.Limit{perMinute(1000)}})
		p.remember(ada, secret, vouched("free", perMinute(c.requests)))
		last := p.expect(t, ada, secret, once, c.want)
		if last.RetryAfter() != time.Minute || last.Limits[0].Remaining != 0 {
			t.Errorf("%d%% of %d: %+v", c.share, c.requests, last)
		}
		p.pass(time.Minute - time.Microsecond)
		p.expect(t, ada, secret, once, "n")
		p.pass(time.Microsecond)
		p.expect(t, ada, secret, once, "y")
	}
}

// What a program admitted in one outage counts in the next, whatever the store said in
// between.
func TestCountsOutliveAnOutage(t *testing.T) {
	p := newProgram(policy.Plan{Name: "free", Degraded: policy.Local, Share: 50})
	p.remember(ada, secret, vouched("free", perMinute(4)))
	p.expect(t, ada, secret, once, "yyn")
	p.pass(time.Second)
	p.remember(ada, secret, vouched("free", perMinute(4)))
	p.expect(t, ada, secret, once, "n")
	p.remember(ada, secret, func() enforce.Result {
		c := vouched("free", perMinute(6))
		c.KeyVersion = 2
		return c
	}())
	p.expect(t, ada, secret, once, "yn")
}

// Limits on the route and on others hold as well, all or nothing; one in shadow mode is
// only reported.
func TestLimitsBeside(t *testing.T) {
	p := newProgram(policy.Plan{Name: "free", Degraded: policy.Local, Share: 100})
	second := enforce.Call{Kind: policy.APIKey, Subject: "second"}
	for _, call := range []enforce.Call{ada, second} {
		p.remember(call, secret, vouched("free", perMinute(3)))
	}
	p.rules = []enforce.RuleLimits{{State: "ip", Scope: policy.ScopeIP, Mode: policy.Enforce,
		Limits: []limiter.Limit{perMinute(2)}}}
	last := p.expect(t, ada, secret, once, "yyn")
	if own := last.Limits[0]; own.Remaining != 1 || last.Limits[1].Scope != policy.ScopeIP {
		t.Errorf("a call that the address's limit denied took from the caller's: %+v", last)
	}
	p.expect(t, second, secret, once, "n")
	p.rules[0].Mode = policy.Shadow
	if last := p.expect(t, ada, secret, once, "y"); last.WouldAllow {
		t.Error("a shadow limit did not tell that it would deny")
	}
	p.expect(t, ada, secret, once, "n")
	p.rules = nil
	p.expect(t, second, secret, once, "yyyn")
}

// A limit in shadow mode denies nothing, and takes nothing of what exceeds it.
func TestShadowWithoutValkey(t *testing.T) {
	p := newProgram(policy.Plan{Name: "free", Degraded: policy.Local, Share: 100})
	soft := perMinute(1)
	soft.Shadow = true
	p.remember(ada, secret, vouched("free", perMinute(3), soft))
	p.rules = []enforce.RuleLimits{{State: "all", Scope: policy.ScopeGlobal, Mode: policy.Enforce,
		Limits: []limiter.Limit{perMinute(9), soft}}}
	left := func(call enforce.Call) (enforce.Result, string) {
		last := p.decide(call, secret, once)
		left := ""
		for _, l := range last.Limits {
			left += fmt.Sprint(" ", l.Remaining)
		}
		return last, left
	}
	for i, want := range []string{" 2 0 8 0", " 1 0 7 0", " 0 0 6 0", " 0 0"} {
		if last, got := left(ada); last.Allowed != (i < 3) || last.WouldAllow != (i == 0) || got != want {
			t.Errorf("call %d: %s remain of %+v", i, got, last)
		}
	}
	second := enforce.Call{Kind: policy.APIKey, Subject: "second"}
	p.remember(second, secret, vouched("free", perMinute(3), soft))
	rules := p.rules
	p.rules = nil
	p.expect(t, second, secret, once, "y")
	p.rules = rules
	p.rules[0].Limits[0].Requests = 3 // all used
	if last, got := left(second); last.Allowed || got != " 2 0 0 0" {
		t.Errorf("denied by the limit of all calls: %s remain of %+v", got, last)
	}
}

// The keys of a group take from this environment's share of the group's limits and from
// their own. Those of another group or plan do not.
func TestGroupsWithoutValkey(t *testing.T) {
	p := newProgram(policy.Plan{Name: "free", Number: 1, Degraded: policy.Local, Share: 50,
		PerGroup: []limiter.Limit{perMinute(8)}}, policy.Plan{Name: "pro", Number: 2, Degraded: policy.Local,
		Share: 100, PerGroup: []limiter.Limit{perMinute(1)}})
	known := func(subject, plan, group string) enforce.Call {
		call := enforce.Call{Kind: policy.APIKey, Subject: subject}
		checked := vouched(plan, perMinute(6))
		checked.Group = group
		p.remember(call, secret, checked)
		return call
	}
	one, two := known("one", "free", "acme"), known("two", "free", "acme")
	p.expect(t, one, secret, once, "yyyn")
	last := p.expect(t, two, secret, once, "yn")
	if own, group := last.Limits[0], last.Limits[1]; own.Remaining != 2 || group.Scope != policy.ScopeGroup ||
		group.Remaining != 0 || last.Group != "acme" {
		t.Errorf("denied by the group: %+v", last)
	}
	p.expect(t, known("three", "free", "zebra"), secret, once, "yyyn")
	p.expect(t, known("four", "free", ""), secret, once, "yyyn")
	p.expect(t, known("five", "pro", "acme"), secret, once, "yn")
	p.set.Plans[0].Mode = policy.Off
	if last := p.expect(t, two, secret, once, "yy"); len(last.Limits) != 1 {
		t.Errorf("the plan is off: %+v", last)
	}
}

// A caller over its own share takes nothing of what callers share, not even in passing.
func TestOwnLimitsGoFirst(t *testing.T) {
	p := newProgram(policy.Plan{Name: "free", Degraded: policy.Local, Share: 100})
	second := enforce.Call{Kind: policy.APIKey, Subject: "second"}
	for _, call := range []enforce.Call{ada, second} {
		p.remember(call, secret, vouched("free", perMinute(2)))
	}
	attempts := []limiter.Limit{{Requests: 4, Window: time.Minute, CountDenied: true}} // it shows every touch
	p.rules = []enforce.RuleLimits{{State: "all", Scope: policy.ScopeGlobal, Mode: policy.Enforce,
		Limits: attempts}}
	if last := p.expect(t, ada, secret, once, "yynnnnnn"); len(last.Limits) != 1 {
		t.Errorf("the shared limit was asked: %+v", last)
	}
	p.expect(t, second, secret, once, "yy")
}

// A cost of 0, and a mode that counts nothing, stay unlimited; a cost above the share has
// to wait for the store.
func TestCosts(t *testing.T) {
	p := newProgram(policy.Plan{Name: "free", Degraded: policy.Local, Share: 50})
	p.remember(ada, secret, vouched("free", perMinute(4)))
	free, dear := once, once
	free.Cost, dear.Cost = 0, 3
	p.expect(t, ada, secret, free, "yyyyy")
	p.expect(t, ada, secret, dear, "nn")
	p.expect(t, ada, secret, once, "yyn")
	p.remember(ada, secret, vouched("free")) // no limit is looked at
	p.expect(t, ada, secret, once, "yyyyy")
}

// A flood of callers pushes out those who have not called for longest, and they are
// denied, never let in uncounted.
func TestBounded(t *testing.T) {
	p := newProgram(policy.Plan{Name: "free", Degraded: policy.Local, Share: 100})
	p.remember(ada, secret, vouched("free", perMinute(2)))
	for i := range 10_000 {
		p.remember(enforce.Call{Kind: policy.APIKey, Subject: fmt.Sprint(i)}, secret,
			vouched("free", perMinute(2)))
	}
	p.expect(t, ada, secret, once, "n")
	p.expect(t, enforce.Call{Kind: policy.APIKey, Subject: "9999"}, secret, once, "yyn")
}
