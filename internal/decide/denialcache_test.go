package decide

import (
	"fmt"
	"testing"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// program is a cache whose clock is set by hand, in front of a caller who is blocked
// until an instant.
type denialProgram struct {
	*denialCache
	clock   time.Time
	blocked time.Time // on the server, whose clock is an hour ahead
	asked   int
}

const (
	ahead          = time.Hour
	denialLifetime = 100 * time.Millisecond
)

func start(life time.Duration) *denialProgram {
	p := &denialProgram{clock: time.Unix(1_800_000_000, 0)}
	p.denialCache = newDenialCache(life, func() time.Time { return p.clock })
	p.blocked = p.clock.Add(ahead + 10*time.Second)
	return p
}

// denied is what the store says to a call that reaches it now.
func (p *denialProgram) denied() enforce.Result {
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

// call answers from the cache, or asks the store, which takes no time.
func (p *denialProgram) call(c deniedCall) enforce.Result {
	if known, found := p.find(c); found {
		return known
	}
	p.asked++
	checked := p.denied()
	p.learn(c, p.clock, checked)
	return checked
}

// repeat makes calls, each so long after the one before, and returns how many reached the
// store.
func (p *denialProgram) repeat(c deniedCall, calls int, gap time.Duration) int {
	before := p.asked
	for range calls {
		p.call(c)
		p.clock = p.clock.Add(gap)
	}
	return p.asked - before
}

var deniedCaller = deniedCall{Subject: "a", Cost: 1}

// A flood asks ten times, and then once in each lifetime; someone who calls now and then
// is always asked about.
func TestFloodsAreAnsweredHere(t *testing.T) {
	for _, c := range []struct {
		gap   time.Duration
		calls int
		asked int
	}{
		{time.Millisecond, 10, 10}, // not yet hammering
		{time.Millisecond, 1010, 20},
		{denialLifetime - time.Millisecond, 20, 15}, // every other one, once it keeps calling
		{denialLifetime, 50, 50},
	} {
		if asked := start(denialLifetime).repeat(deniedCaller, c.calls, c.gap); asked != c.asked {
			t.Errorf("%d calls, one each %s: %d reached the store, want %d", c.calls, c.gap, asked, c.asked)
		}
	}
}

func TestLifetimeZeroRemembersNothing(t *testing.T) {
	if asked := start(0).repeat(deniedCaller, 50, time.Millisecond); asked != 50 {
		t.Errorf("%d of 50 calls reached the store", asked)
	}
}

// An answer is never given again at or after the instant at which the caller is free, and
// its times count down.
func TestEndsWithTheInstant(t *testing.T) {
	p := start(time.Minute)
	p.repeat(deniedCaller, 10, 0)
	for left := 10 * time.Second; left > 0; left -= time.Second {
		checked, found := p.find(deniedCaller)
		if !found || checked.Allowed || checked.RetryAfter() != left ||
			!checked.Now.Equal(p.clock.Add(ahead)) {
			t.Errorf("%s before: found %t, %+v", left, found, checked)
		}
		if len(checked.Limits) != 1 {
			t.Errorf("%s before: want the caller's own limit alone, got %+v", left, checked.Limits)
		}
		p.clock = p.clock.Add(time.Second)
	}
	if _, found := p.find(deniedCaller); found {
		t.Error("still denied at the instant at which the caller is free")
	}
}

// When the reply was on its way for a while, the instant is taken to come as early as it
// may.
func TestSlowReplies(t *testing.T) {
	p := start(time.Minute)
	asked := p.clock
	checked := p.denied()
	p.clock = p.clock.Add(3 * time.Second)
	for range 10 {
		p.learn(deniedCaller, asked, checked)
	}
	p.clock = asked.Add(10*time.Second - time.Nanosecond)
	if again, found := p.find(deniedCaller); !found || again.RetryAfter() != 3*time.Second+time.Nanosecond {
		t.Errorf("found %t, retry after %s: want no less than there may be left", found, again.RetryAfter())
	}
	p.clock = asked.Add(10 * time.Second)
	if _, found := p.find(deniedCaller); found {
		t.Error("still denied when the caller may be free")
	}
}

// Whatever distinguishes calls keeps their answers apart, and an answer other than such a
// denial ends it.
func TestAnswersAreNotMixedUp(t *testing.T) {
	p := start(time.Minute)
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
			t.Errorf("another %s has the same answer", name)
		}
	}
	if _, found := p.find(deniedCaller); !found {
		t.Fatal("the answer itself is lost")
	}
	p.learn(deniedCaller, p.clock, enforce.Result{Allowed: true})
	if _, found := p.find(deniedCaller); found {
		t.Error("denied after the store allowed the call")
	}
	counted := p.denied()
	counted.Repeats = false
	for range 20 {
		p.learn(deniedCaller, p.clock, counted)
	}
	if _, found := p.find(deniedCaller); found {
		t.Error("a denial that counts was not counted")
	}
}

func TestDenialCacheIsBounded(t *testing.T) {
	p := start(time.Minute)
	p.repeat(deniedCaller, 10, 0)
	for i := range 5000 {
		p.call(deniedCall{Subject: fmt.Sprint(i)})
	}
	if _, found := p.find(deniedCaller); found {
		t.Error("5,000 other callers did not push the oldest out")
	}
}
