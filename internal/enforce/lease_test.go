package enforce

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

// leaseFixture has several environments that lease a limit on all callers. Time is
// virtual.
type leaseFixture struct {
	*world
	t      *testing.T
	now    time.Time
	envs   []*Checker
	secret apikey.Secret
}

var leaseStart = time.Unix(1_800_000_000, 0)

// newLeaseFixture saves a limit on all callers, and routes that cost 4 or have a limit of
// their own.
func newLeaseFixture(t *testing.T, environments int, global policy.Scope) *leaseFixture {
	t.Helper()
	onVirtualTime(t)
	largerLeases(t)
	w := open(t, valkeytest.Start(t))
	l := &leaseFixture{world: w, t: t}
	clock := func() time.Time { return l.now }
	w.Now = clock
	l.setNow(leaseStart)
	for range environments {
		c := NewChecker(w.client, testPepper) // the check function's user cannot read the clock
		c.Now = clock
		l.envs = append(l.envs, c)
	}
	w.plan(t, "free", hourly(1_000_000))
	_, l.secret = w.create(t, "caller", "free")
	w.save(t, func(s *policy.Set) {
		s.Global = global
		s.Routes = []policy.Route{
			{Name: "chat", Cost: 4, Settle: true, Pattern: route.Pattern{Path: "/chat"}},
			{Name: "tight", Cost: 1, Pattern: route.Pattern{Path: "/tight"},
				PerKey: []limiter.Limit{hourly(1)}},
		}
	})
	return l
}

// setNow sets the clocks of the server and of all environments.
func (l *leaseFixture) setNow(now time.Time) {
	l.now = now
	l.setClock(l.t, now)
}

// call checks one call in an environment.
func (l *leaseFixture) call(env int, path string) Result {
	l.t.Helper()
	c, err := l.envs[env].Check(l.t.Context(), call(l.secret).to("GET", path), nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// calls checks len(want) calls in an environment and compares which are allowed, as in
// "yyn". It returns the last result.
func (l *leaseFixture) calls(env int, path, want string) (last Result) {
	l.t.Helper()
	got := ""
	for range want {
		last = l.call(env, path)
		got += map[bool]string{true: "y", false: "n"}[last.Allowed]
	}
	if got != want {
		l.t.Fatalf("allowed %s, want %s; last result %s", got, want, describe(last))
	}
	return last
}

// leaseLeft returns the calls left in the lease that an environment holds.
func (l *leaseFixture) leaseLeft(env int) int64 {
	_, left := l.envs[env].set.Load().SharedGlobal.Held()
	return left
}

// used returns how many calls the state of the limit counts, including leased ones.
func (l *leaseFixture) used() int64 {
	l.t.Helper()
	s := l.envs[0].set.Load().SharedGlobal
	reply, err := stepScript.Do(
		l.t.Context(),
		l.envs[0].client,
		[]string{keyspace.Of(policy.GlobalID, "s"), "no copy"},
		stepArgs(s.Program, 0, time.Time{}, 0),
	).AsBytes()
	if err != nil {
		l.t.Fatal(err)
	}
	return must(limiter.ParseReply(reply, s.Counted)).Limits[0].Used()
}

// scriptRuns returns how many scripts the server has run.
func (l *leaseFixture) scriptRuns() (n int64) {
	l.t.Helper()
	info := must(l.client.Do(l.t.Context(), l.client.B().Info().Section("commandstats").Build()).ToString())
	for line := range strings.Lines(info) {
		var calls int64
		if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d,", &calls); err == nil {
			n += calls
		}
	}
	return n
}

// leasedMinute returns a leased limit on all callers, per minute.
func leasedMinute(requests int64, lease time.Duration) policy.Scope {
	return policy.Scope{Limits: perMinute(requests), Lease: policy.Duration(lease)}
}

// A call that the held lease covers runs only the caller's own step. Any other call also
// runs the step on the shared limit.
func TestLeasedCallsSkipTheSharedStep(t *testing.T) {
	l := newLeaseFixture(t, 1, leasedMinute(1000, 5*time.Second))
	l.calls(0, "/", "yyyyyyy") // leases of 1, 2 and 4
	before := l.scriptRuns()
	l.calls(0, "/", "yyyyyyyy")
	if got := l.scriptRuns() - before; got != 9 || l.leaseLeft(0) != 0 || l.used() != 15 {
		t.Errorf("8 calls: got %d steps, %d left and %d used, want 9, 0 and 15", got, l.leaseLeft(0),
			l.used())
	}
}

// Remaining is what remained at the server when the lease was taken, plus what is left of
// the lease. The limit is reported as configured.
func TestLeasedLimitsAreReported(t *testing.T) {
	l := newLeaseFixture(t, 2, leasedMinute(100, 10*time.Second))
	l.calls(0, "/", "yy") // the second from a lease of 2
	l.setNow(l.now.Add(time.Second))
	got := l.calls(0, "/", "y").Limits[1]
	want := LimitState{
		limiter.Usage{Limit: perMinute(100)[0], Remaining: 97, Reset: 69 * time.Second,
			Next: 69 * time.Second},
		policy.ScopeGlobal,
		policy.Enforce,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := l.calls(1, "/", "y").Limits[1]; got.Remaining != 96 || got.Reset != 70*time.Second {
		t.Errorf("second environment: got %+v, want 96 remaining and a reset after 70 s", got)
	}
}

// When less than a lease remains, a call takes only its cost. RetryAfter of a denial is
// exact.
func TestLeasesNearTheLimit(t *testing.T) {
	l := newLeaseFixture(t, 2, leasedMinute(12, 10*time.Second))
	l.calls(0, "/", "yyy") // 3 taken, in leases of 1 and 2
	l.setNow(l.now.Add(time.Second))
	l.calls(1, "/chat", "yy") // 4 each
	l.calls(0, "/", "y")      // takes the last call; this environment still reckons with 9
	if l.used() != 12 || l.leaseLeft(0) != 0 {
		t.Fatalf("got %d used and %d left, want 12 and 0", l.used(), l.leaseLeft(0))
	}
	for path, want := range map[string]time.Duration{"/": 69 * time.Second, "/chat": 70 * time.Second} {
		if got := l.calls(0, path, "n"); got.RetryAfter() != want {
			t.Errorf("%s: got RetryAfter %s, want %s", path, got.RetryAfter(), want)
		}
	}
	l.setNow(leaseStart.Add(70*time.Second - time.Millisecond))
	l.calls(0, "/", "n")
	l.setNow(leaseStart.Add(70 * time.Second))
	l.calls(0, "/", "y")
	l.setNow(leaseStart.Add(71*time.Second - time.Millisecond))
	l.calls(1, "/chat", "n")
	l.setNow(leaseStart.Add(71 * time.Second))
	l.calls(1, "/chat", "y")
}

// The duration of a lease begins before the environment requests it. So a late reply does
// not extend the lease.
func TestLeasesCountFromBeforeTheRequest(t *testing.T) {
	l := newLeaseFixture(t, 1, leasedMinute(1000, 5*time.Second))
	late := NewPiggyback(l.client, []valkey.Completed{l.client.B().Ping().Build()},
		func([]valkey.ValkeyResult) { l.setNow(l.now.Add(5 * time.Second)) })
	l.calls(0, "/", "y")
	if _, err := l.envs[0].Check(t.Context(), call(l.secret).to("GET", "/"), late); err != nil {
		t.Fatal(err)
	}
	if l.leaseLeft(0) != 1 {
		t.Fatalf("got %d left, want 1 of a lease of 2", l.leaseLeft(0))
	}
	before := l.scriptRuns()
	if l.calls(0, "/", "y"); l.scriptRuns()-before != 2 {
		t.Error("the lease is used 5 s after its request")
	}
}

// The unused calls of a lease are given back with the next request.
func TestUnusedLeaseIsGivenBack(t *testing.T) {
	l := newLeaseFixture(t, 1, leasedMinute(1000, 5*time.Second))
	l.calls(0, "/", "yyyyyyyy") // 8 of 15
	l.setNow(l.now.Add(5 * time.Second))
	if l.calls(0, "/", "y"); l.used() != 9 {
		t.Errorf("after the lease: got %d used, want 9", l.used())
	}
	l.calls(0, "/", "yyy") // 12 of 15
	l.setNow(l.now.Add(2 * time.Minute))
	if l.calls(0, "/", "y"); l.used() != 1 {
		t.Errorf("two minutes later: got %d used, want 1", l.used())
	}
}

// A call that the caller's own limit denies draws nothing from the lease and requests
// none.
func TestDeniedCallsKeepTheLease(t *testing.T) {
	l := newLeaseFixture(t, 1, leasedMinute(1000, 5*time.Second))
	l.calls(0, "/tight", "y")
	l.calls(0, "/tight", "nnnnn")
	if l.used() != 1 || l.leaseLeft(0) != 0 {
		t.Errorf("got %d used and %d left, want 1 and 0", l.used(), l.leaseLeft(0))
	}
	l.calls(0, "/", "yy") // the second from a lease of 2
	before, left := l.scriptRuns(), l.leaseLeft(0)
	if c := l.calls(0, "/tight", "n"); l.scriptRuns()-before != 1 || len(c.Limits) != 2 ||
		l.leaseLeft(0) != left {
		t.Errorf("got %s in %d steps with %d left, want 2 limits in 1 step with %d left", describe(c),
			l.scriptRuns()-before, l.leaseLeft(0), left)
	}
}

// If a check fails, a drawn cost returns to the lease. If the reply to a request is lost,
// the requested calls stay counted.
func TestLeasesSurviveFailures(t *testing.T) {
	onVirtualTime(t)
	largerLeases(t)
	server := valkeytest.Start(t)
	proxy := valkeytest.StartProxy(t, server, nil)
	w := open(t, server)
	w.setClock(t, leaseStart)
	w.checker = NewChecker(storetest.Connect(t, proxy.URL()), testPepper)
	w.checker.Now = func() time.Time { return leaseStart }
	w.plan(t, "free", hourly(1_000_000))
	_, secret := w.create(t, "caller", "free")
	w.save(t, func(s *policy.Set) { s.Global = leasedMinute(1000, 5*time.Second) })
	w.expect(t, call(secret), "yyyy") // 4 of 7
	proxy.DropReplies("EVALSHA", 1)
	if c, err := w.checker.Check(t.Context(), call(secret), nil); err == nil || c.Allowed || w.held() != 3 {
		t.Errorf("got %s, %v with %d left, want an error with 3 left", describe(c), err, w.held())
	}
	w.expect(t, call(secret), "yyy")
	proxy.DropReplies("EVALSHA", 1)
	if c, err := w.checker.Check(t.Context(), call(secret), nil); err == nil || c.Allowed {
		t.Errorf("lost reply to a request: got %s, %v, want an error", describe(c), err)
	}
	if got, want := w.expect(t, call(secret), "y").Limits[1].Remaining, int64(1000-7-8-1); got != want {
		t.Errorf("got %d remaining, want %d: the 8 calls of the lost reply count", got, want)
	}
}

// The settlement of a leased call gives back to the server's state, or takes from it, and
// leaves the lease as it is.
func TestLeasedCallsAreSettled(t *testing.T) {
	l := newLeaseFixture(t, 1, leasedMinute(1000, 10*time.Second))
	l.calls(0, "/chat", "y")
	c := l.calls(0, "/chat", "y") // from a lease of 8
	l.setNow(l.now.Add(time.Second))
	d := l.calls(0, "/chat", "y") // from the same lease
	if l.used() != 12 || l.leaseLeft(0) != 0 {
		t.Fatalf("got %d used and %d left, want 12 and 0", l.used(), l.leaseLeft(0))
	}
	for reservation, actual := range map[string]int64{c.Reservation: 1, d.Reservation: 6} {
		if _, err := l.envs[0].Settle(t.Context(), reservation, actual); err != nil {
			t.Error(err)
		}
	}
	if l.used() != 11 {
		t.Errorf("after settling: got %d used, want 11", l.used())
	}
	l.setNow(leaseStart.Add(70 * time.Second))
	if l.used() != 2 {
		t.Errorf("with the leases outside the window: got %d used, want the 2 charged later", l.used())
	}
}

// A limit is lowered while environments hold leases. The next check in each environment
// applies it, and used and leased calls stay counted.
func TestLoweringALeasedLimit(t *testing.T) {
	l := newLeaseFixture(t, 3, leasedMinute(1000, 15*time.Second))
	for env := range l.envs {
		l.calls(env, "/", "yyyyyyyyyy") // 10 of 15
	}
	l.save(t, func(s *policy.Set) { s.Global.Limits = perMinute(40) })
	for env := range l.envs {
		if c := l.calls(env, "/", "n"); c.Limits[1].Limit.Requests != 40 || c.RetryAfter() != 75*time.Second {
			t.Errorf("got %s, want a limit of 40 and RetryAfter 75 s", describe(c))
		}
	}
	l.save(t, func(s *policy.Set) { s.Global.Limits = perMinute(46) })
	l.calls(2, "/", "y")
	l.calls(1, "/", "n")
}

// After an edit ends a lease, leased calls count for as long as they may have been used.
// Then the configured window applies. RetryAfter is exact in both periods.
func TestEndingALease(t *testing.T) {
	l := newLeaseFixture(t, 1, leasedMinute(4, 15*time.Second))
	l.calls(0, "/", "yyy") // in leases of 1
	l.setNow(leaseStart.Add(10 * time.Second))
	set := l.save(t, func(s *policy.Set) { s.Global.Lease = 0 })
	if got := set.ShrinkingLeases[policy.GlobalID]; got.Lease != policy.Duration(15*time.Second) ||
		!got.Until.Equal(l.now.Add(75*time.Second+policy.ShrinkingMargin)) {
		t.Fatalf("got shrinking lease %+v, want 15 s until 75 s and the margin from now", got)
	}
	l.calls(0, "/", "y")
	if c := l.calls(0, "/", "n"); c.RetryAfter() != 65*time.Second {
		t.Errorf("got %s, want RetryAfter 65 s: 75 s from the start", describe(c))
	}
	l.setNow(set.ShrinkingLeases[policy.GlobalID].Until.Add(-time.Second))
	l.calls(0, "/", "yyyy")
	if c := l.calls(0, "/", "n"); c.RetryAfter() != time.Minute {
		t.Errorf("got %s, want RetryAfter of a minute", describe(c))
	}
	l.setNow(l.now.Add(time.Minute - time.Microsecond))
	l.calls(0, "/", "n")
	l.setNow(l.now.Add(time.Microsecond))
	l.calls(0, "/", "yyyyn")
	if set := l.save(t, func(s *policy.Set) {
		s.Global.Lease = policy.Duration(time.Second)
	}); set.ShrinkingLeases != nil {
		t.Errorf("after it ended: got shrinking leases %+v, want none", set.ShrinkingLeases)
	}
}

// Explain reports a leased limit as an environment without a lease sees it, and takes
// nothing.
func TestExplainLeased(t *testing.T) {
	l := newLeaseFixture(t, 1, leasedMinute(1000, 15*time.Second))
	l.calls(0, "/", "yy")
	k := must(l.Get(t.Context(), l.secret.ID()))
	e := must(l.explainer.Explain(t.Context(), must(l.Set(t.Context())), k, call(l.secret)))
	got := e.Result.Limits[len(e.Result.Limits)-1]
	if got.Scope != policy.ScopeGlobal || got.Limit != perMinute(1000)[0] || l.used() != 3 {
		t.Errorf("got %+v with %d used, want the limit as configured with 3 used", got, l.used())
	}
}

// Under concurrent calls in several environments, the allowed calls and the calls left in
// leases together equal the limit.
func TestLeasesUnderLoad(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", hourly(1_000_000))
	_, secret := w.create(t, "caller", "free")
	w.save(t, func(s *policy.Set) {
		s.Global = policy.Scope{Limits: []limiter.Limit{hourly(1500)},
			Lease: policy.Duration(10 * time.Minute)}
	})
	var allowed atomic.Int64
	var wg sync.WaitGroup
	envs := []*Checker{NewChecker(w.client, testPepper), NewChecker(w.client, testPepper),
		NewChecker(w.client, testPepper)}
	for worker := range 9 {
		wg.Go(func() {
			for range 300 {
				c, err := envs[worker%len(envs)].Check(t.Context(), call(secret), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if c.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	held := int64(0)
	for _, env := range envs {
		_, left := env.set.Load().SharedGlobal.Held()
		held += left
	}
	if got := allowed.Load() + held; got != 1500 {
		t.Errorf("got %d allowed and %d left in leases, want 1,500 together", allowed.Load(), held)
	}
}

// A save refuses an invalid lease, with the field and the bound in the message.
func TestInvalidLeasesAreRefused(t *testing.T) {
	w := open(t, valkeytest.Embedded(t))
	w.plan(t, "free", perMinute(10)...)
	second := policy.Duration(time.Second)
	for name, c := range map[string]struct {
		field, want string
		change      func(*policy.Set)
	}{
		"too short": {"global.lease", "10 milliseconds", func(s *policy.Set) {
			s.Global = leasedMinute(9, 9*time.Millisecond)
		}},
		"below zero": {"global.lease", "10 milliseconds", func(s *policy.Set) {
			s.Global = leasedMinute(9, -time.Second)
		}},
		"too long": {"global.lease", "15 seconds", func(s *policy.Set) {
			s.Global = leasedMinute(9, 15*time.Second+time.Millisecond)
		}},
		"fraction of a millisecond": {"global.lease", "whole milliseconds", func(s *policy.Set) {
			s.Global = leasedMinute(9, time.Second+time.Microsecond)
		}},
		"bound by the shortest window": {"global.lease", "250 milliseconds", func(s *policy.Set) {
			s.Global = policy.Scope{Limits: append(perMinute(9),
				limiter.Limit{Requests: 3, Window: time.Second}), Lease: second}
		}},
		"nothing to lease": {"global.lease", "no limit", func(s *policy.Set) { s.Global.Lease = second }},
		"window of a year": {"global.lease", "12 hours", func(s *policy.Set) {
			s.Global = policy.Scope{Limits: []limiter.Limit{{Requests: 9,
				Window: limiter.MaxWindow - 12*time.Hour}}, Lease: policy.Duration(24 * time.Hour)}
		}},
		"token bucket": {"global.lease", "only logs", func(s *policy.Set) {
			s.Global = policy.Scope{Limits: []limiter.Limit{
				{Requests: 9, Window: time.Minute, Algorithm: limiter.TokenBucket}}, Lease: second}
		}},
		"addresses": {"perIP.lease", "limits on all callers", func(s *policy.Set) {
			s.PerIP = leasedMinute(9, time.Second)
		}},
	} {
		set := must(w.Set(t.Context()))
		set.Routes = orders(1)
		c.change(set)
		err := set.Validate()
		if wantInvalid(t, err, c.field); err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, c.want)
		}
	}
}

// A result has the server's time even if the call takes only from a lease.
func TestServerTimeWithoutOwnLimits(t *testing.T) {
	for name, change := range map[string]func(*policy.Set){
		"off": func(*policy.Set) {}, "bans": func(s *policy.Set) {
			s.Bans = &policy.Bans{Denials: 9, Window: policy.Duration(time.Minute),
				Base: policy.Duration(time.Minute), Cap: policy.Duration(time.Hour)}
		},
		"candidate": func(s *policy.Set) { s.Plans[0].Candidate = perMinute(9) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaseFixture(t, 1, leasedMinute(1000, 10*time.Second))
			l.save(t, func(s *policy.Set) {
				s.Plans[0].Mode = policy.Off
				change(s)
			})
			l.calls(0, "/", "yy")
			l.setNow(l.now.Add(time.Second))
			if c := l.calls(0, "/", "y"); !c.Now.Equal(l.now) || c.Limits[0].Reset != 69*time.Second {
				t.Errorf("got %s, want Now %s and Reset 69 s", describe(c), l.now)
			}
		})
	}
}

// Leases work on every kind of server, with the permissions of the check function.
func TestLeasesOnEveryServer(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", hourly(1_000_000))
		_, secret := w.create(t, "caller", "free")
		w.save(t, func(s *policy.Set) {
			s.Global = policy.Scope{Limits: []limiter.Limit{hourly(1000)},
				Lease: policy.Duration(10 * time.Minute)}
			s.Routes = []policy.Route{{Name: "orders", Cost: 3, Pattern: route.Pattern{Path: "/orders"},
				Shared: []limiter.Limit{hourly(600)}}}
			s.Routes[0].SharedLease = s.Global.Lease
		})
		c := w.expect(t, call(secret), strings.Repeat("y", 40))
		if all, route := c.Limits[1].Remaining, c.Limits[2].Remaining; all != 1000-120 || route != 600-120 {
			t.Errorf("got %d and %d remaining, want 880 and 480", all, route)
		}
	})
}
