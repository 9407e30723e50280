package decide

import (
	"fmt"
	"testing"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// denialFixture is a denialCache on a clock that the test sets, and a caller that is over
// its limit until an instant.
type denialFixture struct {
	*denialCache
	clock   time.Time
	blocked time.Time // until when the caller is denied, by the server's clock
	reached int
}

const (
	ahead          = time.Hour // how far the server's clock is ahead
	denialLifetime = 100 * time.Millisecond
)

func newDenialFixture(life time.Duration) *denialFixture {
	p := &denialFixture{clock: time.Unix(1_800_000_000, 0)}
	p.denialCache = newDenialCache(life, func() time.Time { return p.clock })
	p.blocked = p.clock.Add(ahead + 10*time.Second)
	return p
}

// denied returns Valkey's result for a call that reaches it now.
func (p *denialFixture) denied() enforce.Result {
	now := p.clock.Add(ahead)
	wait := p.blocked.Sub(now)
	if wait <= 0 {
		return enforce.Result{Allowed: true, Now: now}
	}
	limit := limiter.Limit{Requests: 1, Window: time.Minute}
	return enforce.Result{Now: now, Repeats: true, Limits: []enforce.LimitState{
		{Usage: limiter.Usage{Limit: limit, Reset: wait, RetryAfter: wait}, Scope: policy.ScopeKey,
			Mode: policy.Enforce},
		{Usage: limiter.Usage{Limit: limit, Remaining: 1}, Scope: policy.ScopeIP, Mode: policy.Enforce},
	}}
}

// call answers from the cache, or from Valkey, which takes no time.
func (p *denialFixture) call(c deniedCall) enforce.Result {
	if known, found := p.find(c); found {
		return known
	}
	p.reached++
	result := p.denied()
	p.learn(c, p.clock, result)
	return result
}

// repeat makes calls with a gap after each, and returns how many reached Valkey.
func (p *denialFixture) repeat(c deniedCall, calls int, gap time.Duration) int {
	before := p.reached
	for range calls {
		p.call(c)
		p.clock = p.clock.Add(gap)
	}
	return p.reached - before
}

var deniedCaller = deniedCall{Subject: "a", Cost: 1}

// The first ten calls of a flood reach Valkey, then one in each lifetime. Every call
// reaches Valkey if its caller pauses for a lifetime between calls.
func TestFloodsAreAnsweredFromMemory(t *testing.T) {
	for _, c := range []struct {
		gap     time.Duration
		calls   int
		reached int
	}{
		{time.Millisecond, 10, 10}, // denials are not repeated yet
		{time.Millisecond, 1010, 20},
		{denialLifetime - time.Millisecond, 20, 15}, // every other one, once it keeps calling
		{denialLifetime, 50, 50},
	} {
		p := newDenialFixture(denialLifetime)
		if reached := p.repeat(deniedCaller, c.calls, c.gap); reached != c.reached {
			t.Errorf("%d calls, one each %s: %d reached Valkey, want %d", c.calls, c.gap, reached,
				c.reached)
		}
	}
}

// A cache with lifetime 0 remembers no denial.
func TestLifetimeZeroRemembersNothing(t *testing.T) {
	if reached := newDenialFixture(0).repeat(deniedCaller, 50, time.Millisecond); reached != 50 {
		t.Errorf("%d of 50 calls reached Valkey, want 50", reached)
	}
}

// A denial is repeated until its Retry-After has passed, and not at that instant. Its
// times count down, and it has only the caller's own limit.
func TestDenialEndsWithRetryAfter(t *testing.T) {
	p := newDenialFixture(time.Minute)
	p.repeat(deniedCaller, 10, 0)
	for left := 10 * time.Second; left > 0; left -= time.Second {
		result, found := p.find(deniedCaller)
		if !found || result.Allowed || result.RetryAfter() != left ||
			!result.Now.Equal(p.clock.Add(ahead)) {
			t.Errorf("%s before: got %+v, found %t, want a denial with that Retry-After", left, result, found)
		}
		if len(result.Limits) != 1 {
			t.Errorf("%s before: got %+v, want the caller's own limit alone", left, result.Limits)
		}
		p.clock = p.clock.Add(time.Second)
	}
	if _, found := p.find(deniedCaller); found {
		t.Error("the denial is repeated when its Retry-After has passed")
	}
}

// For a slow reply, Retry-After counts from when Valkey was asked, so that the denial
// never outlasts the limit. The reported Retry-After counts from the reply.
func TestSlowReplies(t *testing.T) {
	p := newDenialFixture(time.Minute)
	asked := p.clock
	result := p.denied()
	p.clock = p.clock.Add(3 * time.Second)
	for range 10 {
		p.learn(deniedCaller, asked, result)
	}
	p.clock = asked.Add(10*time.Second - time.Nanosecond)
	if again, found := p.find(deniedCaller); !found || again.RetryAfter() != 3*time.Second+time.Nanosecond {
		t.Errorf("got Retry-After %s, found %t, want that of the reply less what passed since",
			again.RetryAfter(), found)
	}
	p.clock = asked.Add(10 * time.Second)
	if _, found := p.find(deniedCaller); found {
		t.Error("the denial is repeated when the caller may call again")
	}
}

// Calls that differ in any field of deniedCall have denials of their own. An allowed call
// and a denial without Repeats remove the denial.
func TestDenialsAreKeptApart(t *testing.T) {
	p := newDenialFixture(time.Minute)
	p.repeat(deniedCaller, 10, 0)
	for name, other := range map[string]deniedCall{
		"subject": {Subject: "b", Cost: 1},
		"secret":  {Subject: "a", Cost: 1, Proof: secretHash{1}},
		"plan":    {Subject: "a", Cost: 1, Plan: "pro"},
		"rule":    {Subject: "a", Cost: 1, Rule: "export"},
		"cost":    {Subject: "a", Cost: 2},
		"version": {Subject: "a", Cost: 1, SetVersion: 2},
	} {
		if _, found := p.find(other); found {
			t.Errorf("another %s: got the same denial, want none", name)
		}
	}
	if _, found := p.find(deniedCaller); !found {
		t.Fatal("the denial of the call itself is gone")
	}
	p.learn(deniedCaller, p.clock, enforce.Result{Allowed: true})
	if _, found := p.find(deniedCaller); found {
		t.Error("the denial is repeated after Valkey allowed the call")
	}
	counted := p.denied()
	counted.Repeats = false
	for range 20 {
		p.learn(deniedCaller, p.clock, counted)
	}
	if _, found := p.find(deniedCaller); found {
		t.Error("a denial without Repeats is repeated, so Valkey does not count it")
	}
}

// A full cache forgets the least recently used denial.
func TestDenialCacheIsBounded(t *testing.T) {
	p := newDenialFixture(time.Minute)
	p.repeat(deniedCaller, 10, 0)
	for i := range 5000 {
		p.call(deniedCall{Subject: fmt.Sprint(i)})
	}
	if _, found := p.find(deniedCaller); found {
		t.Error("the oldest denial is still cached after 5,000 other callers")
	}
}
