package enforce

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce/lease"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/testing/valkeytest"
)

// admitted is what a call took of the limits of all callers, and when it was admitted.
type admitted struct {
	at          time.Time
	cost        int64
	reservation string
}

// leased plays random calls of several environments against leased limits of all callers,
// and counts by itself what they let through.
type leased struct {
	*world
	t         *rapid.T
	now       time.Time
	skew      [3]time.Duration // of each environment's clock
	checkers  [3]*Checker
	secret    apikey.Secret
	set       *policy.Set
	admitted  []admitted
	reach     time.Duration // how far back the state certainly remembers when it is stepped on
	remembers time.Time     // until then a shorter window may have forgotten calls
	checks    int
	drawn     int
	log       []string
}

func (l *leased) note(format string, args ...any) {
	l.log = append(l.log, fmt.Sprintf(format, args...))
}

func (l *leased) fail(format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf("%s\n%s", strings.Join(l.log, "\n"), fmt.Sprintf(format, args...))
}

func (l *leased) drawScope() policy.Scope {
	t := l.t
	s := policy.Scope{Limits: make([]limiter.Limit, rapid.IntRange(1, 2).Draw(t, "limits"))}
	window := rapid.SampledFrom([]time.Duration{10 * time.Second, time.Minute}).Draw(t, "window")
	for i := range s.Limits {
		s.Limits[i] = limiter.Limit{Requests: rapid.Int64Range(6, 80).Draw(t, "requests"),
			Window: window * time.Duration(i+1)}
	}
	leases := []time.Duration{0, policy.MinLease, time.Second, window / 4, window / 4, window / 4}
	s.Lease = policy.Duration(rapid.SampledFrom(leases).Draw(t, "lease"))
	return s
}

// edit changes the limits of all callers, or removes them.
func (l *leased) edit() {
	scope := l.drawScope()
	switch rapid.IntRange(0, 5).Draw(l.t, "edit") {
	case 0:
		scope = policy.Scope{}
	case 1:
		scope.Mode = policy.Off
	case 2: // only the lease is new
		scope.Limits = l.set.Global.Limits
		if len(scope.Limits) > 0 {
			scope.Lease = min(scope.Lease, policy.Duration(policy.ShortestWindow(scope.Limits)/4))
		} else {
			scope.Lease = 0
		}
	}
	l.save(func(s *policy.Set) { s.Global = scope })
}

func (l *leased) save(change func(*policy.Set)) {
	set := must(l.Set(l.t.Context()))
	change(set)
	saved, err := l.SaveSet(l.t.Context(), *set, byTest)
	if err != nil {
		l.fail("save: %v", err)
	}
	l.set = saved
	l.note("saved %+v, shrinking leases %+v", saved.Global, saved.ShrinkingLeases)
}

// pass lets time pass, and freezes environments, whose clocks are ahead then.
func (l *leased) pass() {
	most := rapid.SampledFrom([]int64{1, 10_000, 1_000_000, 1_000_000, 1_000_000, 20_000_000}).Draw(
		l.t, "at most")
	l.at(l.now.Add(time.Duration(rapid.Int64Range(1, most).Draw(l.t, "microseconds")) * time.Microsecond))
	if rapid.IntRange(0, 9).Draw(l.t, "freeze") == 0 {
		l.skew[rapid.IntRange(0, 2).Draw(l.t, "frozen")] += time.Duration(rapid.Int64Range(0,
			20_000).Draw(l.t, "for")) * time.Millisecond
	}
}

func (l *leased) at(now time.Time) {
	l.now = now
	l.setClock(l.t, now)
}

// step notes that the state was stepped on by the Set in force, or perhaps, as by a call
// that was denied. From limits that held before it remembers as far back as their windows
// reached.
func (l *leased) step(certainly bool) {
	if !l.counts() {
		return
	}
	if since := l.now.Add(-l.reach); l.reach > 0 && since.After(l.remembers) {
		l.remembers = since
	}
	if longest := policy.LongestWindow(l.set.Global.Limits); certainly || longest < l.reach {
		l.reach = longest
	}
}

// counts reports whether the limits of all callers hold now.
func (l *leased) counts() bool {
	return len(l.set.Global.Limits) > 0 && l.set.Global.Mode != policy.Off
}

// check makes one check in an environment.
func (l *leased) check(env int, path string) Result {
	c := l.checkers[env]
	before, left := l.held(c)
	got, err := c.Check(l.t.Context(), call(l.secret).to("GET", path), nil)
	if err != nil {
		l.fail("%v", err)
	}
	l.checks++
	l.note("%d checks %s at %s: allowed %t, %v", env, path, l.now.Format("04:05.000000"),
		got.Allowed, got.Limits)
	after, now := l.held(c)
	if before != nil && before == after && now < left {
		l.drawn++
		if lease := time.Duration(l.set.Global.Lease); !l.now.Before(before.At().Add(lease)) {
			l.fail("what was leased at %s is used after %s", before.At(), lease)
		}
	}
	l.step(got.Allowed)
	if got.Allowed && l.counts() {
		l.admit(admitted{l.now, got.Cost, got.Reservation})
	}
	return got
}

// held is the lease that an environment holds of the limits of all callers.
func (l *leased) held(c *Checker) (*lease.Lease, int64) {
	set := c.set.Load()
	if set == nil || set.Version != l.set.Version || set.SharedGlobal == nil {
		return nil, 0
	}
	return set.SharedGlobal.Held()
}

// admit counts what was admitted and holds all limits to it.
func (l *leased) admit(a admitted) {
	l.admitted = append(l.admitted, a)
	for _, limit := range l.set.Global.Limits {
		from, sum := l.now.Add(-limit.Window), int64(0)
		for _, b := range l.admitted {
			if b.at.After(from) && b.at.After(l.remembers) {
				sum += b.cost
			}
		}
		if sum > limit.Requests {
			l.fail("%d in the window that ends now, the limit is %s", sum, limit)
		}
	}
}

// retry finds that a denial by the limits of all callers ends when it says, and not
// before.
func (l *leased) retry(env int, path string, denied Result) {
	for _, u := range denied.Limits {
		if u.Scope != policy.ScopeGlobal && u.RetryAfter > 0 {
			return
		}
	}
	at := l.now.Add(denied.RetryAfter())
	l.at(at.Add(-time.Microsecond))
	if got := l.check(env, path); got.Allowed {
		l.fail("allowed sooner than %s", at)
	}
	l.at(at)
	if got := l.check(env, path); !got.Allowed {
		for _, u := range got.Limits {
			if u.Scope != policy.ScopeGlobal && u.RetryAfter > 0 {
				return
			}
		}
		l.fail("still denied at %s", at)
	}
}

// settle makes the cost of a call that was admitted another.
func (l *leased) settle() {
	if len(l.admitted) == 0 {
		return
	}
	a := &l.admitted[len(l.admitted)-1-rapid.IntRange(0, min(9, len(l.admitted)-1)).Draw(l.t, "settled")]
	if a.reservation == "" {
		return
	}
	l.step(false)
	actual := rapid.Int64Range(0, 6).Draw(l.t, "actual")
	s, err := l.checkers[rapid.IntRange(0, 2).Draw(l.t, "by")].Settle(l.t.Context(), a.reservation, actual)
	l.note("settled %d, of %d: %+v, %v", a.cost, actual, s, err)
	a.reservation = ""
	switch {
	case err != nil || s.Partial: // the reservation is over
	case actual < a.cost:
		a.cost = actual
	case actual-a.cost > s.Short && l.counts():
		l.admit(admitted{at: l.now, cost: actual - a.cost - s.Short})
	}
}

func (l *leased) begin() {
	ctx, t := l.t.Context(), l.t
	if err := l.client.Do(ctx, l.client.B().Flushall().Sync().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	l.at(l.now)
	l.Now = func() time.Time { return l.now }
	for i := range l.checkers {
		l.checkers[i] = NewChecker(l.client, testPepper)
		l.checkers[i].now = func() time.Time { return l.now.Add(l.skew[i]) }
	}
	l.set = &policy.Set{}
	l.save(func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "free",
			Limits: []limiter.Limit{{Requests: 1_000_000, Window: time.Hour, Algorithm: limiter.Counter}}}}
		s.Routes = []policy.Route{
			{Name: "chat", Cost: 3, Settle: true, Pattern: route.Pattern{Path: "/chat"}},
			{Name: "tight", Cost: 1, Pattern: route.Pattern{Path: "/tight"},
				PerKey: []limiter.Limit{{Requests: 3, Window: 5 * time.Second}}},
			{Name: "lean", Cost: 2, Pattern: route.Pattern{Path: "/lean"},
				Shared: []limiter.Limit{{Requests: 4, Window: 5 * time.Second}}},
		}
		s.Global = l.drawScope()
	})
	var err error
	if _, l.secret, err = l.Create(ctx, policy.NewKey{Name: "caller", Env: "test", Plan: "free"},
		byTest); err != nil {
		t.Fatal(err)
	}
}

// Whatever environments hold shares of a limit of all callers, however their calls,
// costs, settlements and freezes fall, whatever else denies and is edited: no rolling
// window of the limit in force holds more than the limit, nothing is used after its
// lease, and RetryAfter is exact.
func TestLeasedRollingWindows(t *testing.T) {
	onVirtualTime(t)
	largerLeases(t)
	w := open(t, valkeytest.Start(t))
	histories, checks, drawn := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		l := &leased{world: &world{Store: registry.NewStore(w.client, testPepper), client: w.client}, t: rt,
			now: time.Unix(1_800_000_000, 0)}
		l.begin()
		for range rapid.SampledFrom([]int{20, 60, 150}).Draw(rt, "events") {
			switch event := rapid.IntRange(0, 29).Draw(rt, "event"); {
			case event == 0:
				l.edit()
			case event <= 2:
				l.settle()
			case event <= 8:
				l.pass()
			default:
				env := rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(rt, "environment")
				path := rapid.SampledFrom([]string{"/", "/", "/", "/chat", "/tight",
					"/lean"}).Draw(rt, "path")
				if got := l.check(env, path); !got.Allowed && rapid.Bool().Draw(rt, "retry") {
					l.retry(env, path, got)
				}
			}
		}
		histories, checks, drawn = histories+1, checks+l.checks, drawn+l.drawn
	})
	t.Logf("%d histories, %d checks, %d of them from a lease", histories, checks, drawn)
}
