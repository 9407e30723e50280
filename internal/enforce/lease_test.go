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

// tenants are environments that hold shares of a limit of all callers. Time is virtual.
type tenants struct {
	*world
	t      *testing.T
	now    time.Time
	envs   []*Checker
	secret apikey.Secret
}

var leaseStart = time.Unix(1_800_000_000, 0)

// rent saves a limit of all callers, leased to so many environments.
func rent(t *testing.T, environments int, global policy.Scope) *tenants {
	t.Helper()
	onVirtualTime(t)
	largerLeases(t)
	w := open(t, valkeytest.Start(t))
	l := &tenants{world: w, t: t}
	clock := func() time.Time { return l.now }
	w.Now = clock
	l.at(leaseStart)
	for range environments {
		c := NewChecker(w.client, testPepper) // the check function's user cannot read the clock
		c.now = clock
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

func (l *tenants) at(now time.Time) {
	l.now = now
	l.setClock(l.t, now)
}

func (l *tenants) call(env int, path string) Result {
	l.t.Helper()
	c, err := l.envs[env].Check(l.t.Context(), call(l.secret).to("GET", path), nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// calls makes calls and compares which are allowed: "yyn".
func (l *tenants) calls(env int, path, want string) (last Result) {
	l.t.Helper()
	got := ""
	for range want {
		last = l.call(env, path)
		got += map[bool]string{true: "y", false: "n"}[last.Allowed]
	}
	if got != want {
		l.t.Fatalf("allowed: %s, want %s; last %s", got, want, describe(last))
	}
	return last
}

// left is what an environment holds.
func (l *tenants) left(env int) int64 {
	_, left := l.envs[env].set.Load().SharedGlobal.Held()
	return left
}

// used is what the state counts.
func (l *tenants) used() int64 {
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

// steps counts the scripts that the server ran.
func (l *tenants) steps() (n int64) {
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

func leasedMinute(requests int64, lease time.Duration) policy.Scope {
	return policy.Scope{Limits: perMinute(requests), Lease: policy.Duration(lease)}
}

// A call that the lease covers makes the caller's own step and no other; one that it does
// not makes two, in one flush.
func TestLeasesAnswerWithoutAsking(t *testing.T) {
	l := rent(t, 1, leasedMinute(1000, 5*time.Second))
	l.calls(0, "/", "yyyyyyy") // leases of 1, 2 and 4
	before := l.steps()
	l.calls(0, "/", "yyyyyyyy")
	if got := l.steps() - before; got != 9 || l.left(0) != 0 || l.used() != 15 {
		t.Errorf("8 calls made %d steps, %d are left and %d used; want 9, 0 and 15", got, l.left(0), l.used())
	}
}

// Remaining is what the server knew to remain when the lease was taken and what is left
// in the lease; the limit is reported as it is configured.
func TestLeasedLimitsAreReported(t *testing.T) {
	l := rent(t, 2, leasedMinute(100, 10*time.Second))
	l.calls(0, "/", "yy") // the second from a lease of 2
	l.at(l.now.Add(time.Second))
	got := l.calls(0, "/", "y").Limits[1]
	want := LimitState{
		limiter.Usage{Limit: perMinute(100)[0], Remaining: 97, Reset: 69 * time.Second,
			Next: 69 * time.Second},
		policy.ScopeGlobal,
		policy.Enforce,
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := l.calls(1, "/", "y").Limits[1]; got.Remaining != 96 || got.Reset != 70*time.Second {
		t.Errorf("%+v, want 96 to remain", got)
	}
}

// When less than a lease remains, a call takes its cost alone; a denial says when exactly
// that passes.
func TestLeasesNearTheEnd(t *testing.T) {
	l := rent(t, 2, leasedMinute(12, 10*time.Second))
	l.calls(0, "/", "yyy") // 3 taken, in leases of 1 and 2
	l.at(l.now.Add(time.Second))
	l.calls(1, "/chat", "yy") // 4 each
	l.calls(0, "/", "y")      // of the one that remains; it knows of 9
	if l.used() != 12 || l.left(0) != 0 {
		t.Fatalf("%d used, %d left; want 12 and 0", l.used(), l.left(0))
	}
	for path, want := range map[string]time.Duration{"/": 69 * time.Second, "/chat": 70 * time.Second} {
		if got := l.calls(0, path, "n"); got.RetryAfter() != want {
			t.Errorf("%s: retry after %s, want %s", path, got.RetryAfter(), want)
		}
	}
	l.at(leaseStart.Add(70*time.Second - time.Millisecond))
	l.calls(0, "/", "n")
	l.at(leaseStart.Add(70 * time.Second))
	l.calls(0, "/", "y")
	l.at(leaseStart.Add(71*time.Second - time.Millisecond))
	l.calls(1, "/chat", "n")
	l.at(leaseStart.Add(71 * time.Second))
	l.calls(1, "/chat", "y")
}

// An environment whose reply came late does not use what it got for longer: the lease
// counts from before it asked.
func TestLeasesCountFromBeforeTheRequest(t *testing.T) {
	l := rent(t, 1, leasedMinute(1000, 5*time.Second))
	late := NewPiggyback(l.client, []valkey.Completed{l.client.B().Ping().Build()},
		func([]valkey.ValkeyResult) { l.at(l.now.Add(5 * time.Second)) })
	l.calls(0, "/", "y")
	if _, err := l.envs[0].Check(t.Context(), call(l.secret).to("GET", "/"), late); err != nil {
		t.Fatal(err)
	}
	if l.left(0) != 1 {
		t.Fatalf("%d left, want 1 of a lease of 2", l.left(0))
	}
	before := l.steps()
	if l.calls(0, "/", "y"); l.steps()-before != 2 {
		t.Error("what was leased is used 5 seconds later")
	}
}

// What was not used of a lease is given back with the next request.
func TestUnusedIsGivenBack(t *testing.T) {
	l := rent(t, 1, leasedMinute(1000, 5*time.Second))
	l.calls(0, "/", "yyyyyyyy") // 8 of 15
	l.at(l.now.Add(5 * time.Second))
	if l.calls(0, "/", "y"); l.used() != 9 {
		t.Errorf("%d used, want 9", l.used())
	}
	l.calls(0, "/", "yyy") // 12 of 15
	l.at(l.now.Add(2 * time.Minute))
	if l.calls(0, "/", "y"); l.used() != 1 {
		t.Errorf("%d used two minutes later, want 1", l.used())
	}
}

// A call that the caller's own limit denies draws nothing from the lease and asks for
// none.
func TestDeniedCallsLeaveTheLease(t *testing.T) {
	l := rent(t, 1, leasedMinute(1000, 5*time.Second))
	l.calls(0, "/tight", "y")
	l.calls(0, "/tight", "nnnnn")
	if l.used() != 1 || l.left(0) != 0 {
		t.Errorf("%d used, %d left; want 1 and 0", l.used(), l.left(0))
	}
	l.calls(0, "/", "yy") // the second from a lease of 2
	before, left := l.steps(), l.left(0)
	if c := l.calls(0, "/tight", "n"); l.steps()-before != 1 || len(c.Limits) != 2 || l.left(0) != left {
		t.Errorf("%s in %d steps, %d left of %d", describe(c), l.steps()-before, l.left(0), left)
	}
}

// When no decision can be made, what was drawn goes back, and what was taken stays
// counted.
func TestLeasesSurviveFailures(t *testing.T) {
	onVirtualTime(t)
	largerLeases(t)
	server := valkeytest.Start(t)
	proxy := valkeytest.StartProxy(t, server, nil)
	w := open(t, server)
	w.setClock(t, leaseStart)
	w.checker = NewChecker(storetest.Connect(t, proxy.URL()), testPepper)
	w.checker.now = func() time.Time { return leaseStart }
	w.plan(t, "free", hourly(1_000_000))
	_, secret := w.create(t, "caller", "free")
	w.save(t, func(s *policy.Set) { s.Global = leasedMinute(1000, 5*time.Second) })
	w.expect(t, call(secret), "yyyy") // 4 of 7
	proxy.DropReplies("EVALSHA", 1)
	if c, err := w.checker.Check(t.Context(), call(secret), nil); err == nil || c.Allowed || w.held() != 3 {
		t.Errorf("%s, %v; %d left, want 3", describe(c), err, w.held())
	}
	w.expect(t, call(secret), "yyy")
	proxy.DropReplies("EVALSHA", 1)
	if c, err := w.checker.Check(t.Context(), call(secret), nil); err == nil || c.Allowed {
		t.Errorf("%s, %v", describe(c), err)
	}
	if got := w.expect(t, call(secret), "y").Limits[1].Remaining; got != 1000-7-8-1 {
		t.Errorf("%d remain, want the 8 of the lost reply to be counted", got)
	}
}

// A settlement gives back at the server what a lease gave, and takes there what was used
// on top.
func TestLeasedCallsAreSettled(t *testing.T) {
	l := rent(t, 1, leasedMinute(1000, 10*time.Second))
	l.calls(0, "/chat", "y")
	c := l.calls(0, "/chat", "y") // of a lease of 8
	l.at(l.now.Add(time.Second))
	d := l.calls(0, "/chat", "y") // of the same
	if l.used() != 12 || l.left(0) != 0 {
		t.Fatalf("%d used, %d left; want 12 and 0", l.used(), l.left(0))
	}
	for reservation, actual := range map[string]int64{c.Reservation: 1, d.Reservation: 6} {
		if _, err := l.envs[0].Settle(t.Context(), reservation, actual); err != nil {
			t.Error(err)
		}
	}
	if l.used() != 11 {
		t.Errorf("%d used, want 11", l.used())
	}
	l.at(leaseStart.Add(70 * time.Second))
	if l.used() != 2 {
		t.Errorf("%d used when the leases are out of the window, want the 2 that were charged later",
			l.used())
	}
}

// While environments hold shares the limit is lowered: the next check of each obeys, and
// what was used or is held stays counted.
func TestLoweringALeasedLimit(t *testing.T) {
	l := rent(t, 3, leasedMinute(1000, 15*time.Second))
	for env := range l.envs {
		l.calls(env, "/", "yyyyyyyyyy") // 10 of 15
	}
	l.save(t, func(s *policy.Set) { s.Global.Limits = perMinute(40) })
	for env := range l.envs {
		if c := l.calls(env, "/", "n"); c.Limits[1].Limit.Requests != 40 || c.RetryAfter() != 75*time.Second {
			t.Errorf("%s", describe(c))
		}
	}
	l.save(t, func(s *policy.Set) { s.Global.Limits = perMinute(46) })
	l.calls(2, "/", "y")
	l.calls(1, "/", "n")
}

// When a lease ends by an edit, what was leased counts for as long as it may have been
// used; then the window is as configured, and RetryAfter knows.
func TestEndingALease(t *testing.T) {
	l := rent(t, 1, leasedMinute(4, 15*time.Second))
	l.calls(0, "/", "yyy") // in leases of 1
	l.at(leaseStart.Add(10 * time.Second))
	set := l.save(t, func(s *policy.Set) { s.Global.Lease = 0 })
	if got := set.ShrinkingLeases[policy.GlobalID]; got.Lease != policy.Duration(15*time.Second) ||
		!got.Until.Equal(l.now.Add(75*time.Second+policy.ShrinkingMargin)) {
		t.Fatalf("%+v", got)
	}
	l.calls(0, "/", "y")
	if c := l.calls(0, "/", "n"); c.RetryAfter() != 65*time.Second {
		t.Errorf("%s, want 75 s from the start", describe(c))
	}
	l.at(set.ShrinkingLeases[policy.GlobalID].Until.Add(-time.Second))
	l.calls(0, "/", "yyyy")
	if c := l.calls(0, "/", "n"); c.RetryAfter() != time.Minute {
		t.Errorf("%s, want a minute", describe(c))
	}
	l.at(l.now.Add(time.Minute - time.Microsecond))
	l.calls(0, "/", "n")
	l.at(l.now.Add(time.Microsecond))
	l.calls(0, "/", "yyyyn")
	if set := l.save(t, func(s *policy.Set) {
		s.Global.Lease = policy.Duration(time.Second)
	}); set.ShrinkingLeases != nil {
		t.Errorf("%+v", set.ShrinkingLeases)
	}
}

// Explaining a call asks as an environment without a lease would, and takes nothing.
func TestExplainLeased(t *testing.T) {
	l := rent(t, 1, leasedMinute(1000, 15*time.Second))
	l.calls(0, "/", "yy")
	k := must(l.Get(t.Context(), l.secret.ID()))
	e := must(l.explainer.Explain(t.Context(), must(l.Set(t.Context())), k, call(l.secret)))
	got := e.Result.Limits[len(e.Result.Limits)-1]
	if got.Scope != policy.ScopeGlobal || got.Limit != perMinute(1000)[0] || l.used() != 3 {
		t.Errorf("%+v, %d used", got, l.used())
	}
}

// Whatever is checked at once, in one environment and in several: as many calls are
// allowed as the limit says, less what shares still hold.
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
		t.Errorf("%d allowed, %d held; want 1,500 together", allowed.Load(), held)
	}
}

// What cannot be leased is refused when it is saved, in words that say what can.
func TestLeasesOutOfRange(t *testing.T) {
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
		"part of a ms": {"global.lease", "whole milliseconds", func(s *policy.Set) {
			s.Global = leasedMinute(9, time.Second+time.Microsecond)
		}},
		"of the shortest": {"global.lease", "250 milliseconds", func(s *policy.Set) {
			s.Global = policy.Scope{Limits: append(perMinute(9),
				limiter.Limit{Requests: 3, Window: time.Second}), Lease: second}
		}},
		"nothing to lease": {"global.lease", "no limit", func(s *policy.Set) { s.Global.Lease = second }},
		"a year": {"global.lease", "12 hours", func(s *policy.Set) {
			s.Global = policy.Scope{Limits: []limiter.Limit{{Requests: 9,
				Window: limiter.MaxWindow - 12*time.Hour}}, Lease: policy.Duration(24 * time.Hour)}
		}},
		"a bucket": {"global.lease", "only logs", func(s *policy.Set) {
			s.Global = policy.Scope{Limits: []limiter.Limit{
				{Requests: 9, Window: time.Minute, Algorithm: limiter.TokenBucket}}, Lease: second}
		}},
		"denied calls": {"routes[0].sharedLease", "only logs", func(s *policy.Set) {
			s.Routes[0].Shared = []limiter.Limit{{Requests: 9, Window: time.Minute, CountDenied: true}}
			s.Routes[0].SharedLease = second
		}},
		"addresses": {"perIP.lease", "all callers together", func(s *policy.Set) {
			s.PerIP = leasedMinute(9, time.Second)
		}},
	} {
		set := must(w.Set(t.Context()))
		set.Routes = orders(1)
		c.change(set)
		err := set.Validate()
		if wantInvalid(t, err, c.field); err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}

// The server's time is known even of a call that takes of nothing but a lease.
func TestTimeWithoutLimitsOfTheCaller(t *testing.T) {
	for name, change := range map[string]func(*policy.Set){
		"off": func(*policy.Set) {}, "bans": func(s *policy.Set) {
			s.Bans = &policy.Bans{Denials: 9, Window: policy.Duration(time.Minute),
				Base: policy.Duration(time.Minute), Cap: policy.Duration(time.Hour)}
		},
		"candidate": func(s *policy.Set) { s.Plans[0].Candidate = perMinute(9) },
	} {
		t.Run(name, func(t *testing.T) {
			l := rent(t, 1, leasedMinute(1000, 10*time.Second))
			l.save(t, func(s *policy.Set) {
				s.Plans[0].Mode = policy.Off
				change(s)
			})
			l.calls(0, "/", "yy")
			l.at(l.now.Add(time.Second))
			if c := l.calls(0, "/", "y"); !c.Now.Equal(l.now) || c.Limits[0].Reset != 69*time.Second {
				t.Errorf("%s, want it to be %s", describe(c), l.now)
			}
		})
	}
}

// Leases need no other server, and no more rights, than checks do.
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
			t.Errorf("%d and %d remain, want 880 and 480", all, route)
		}
	})
}
