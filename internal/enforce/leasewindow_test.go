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

// admitted is a call that took from the limits on all callers.
type admitted struct {
	at          time.Time
	cost        int64
	reservation string // empty if there is none or it is settled
}

// leaseHistory makes random calls in several environments with leased limits on all
// callers, and counts the admitted calls independently.
type leaseHistory struct {
	*world
	t            *rapid.T
	now          time.Time
	skew         [3]time.Duration // of each environment's clock
	checkers     [3]*Checker
	secret       apikey.Secret
	set          *policy.Set
	admitted     []admitted
	retention    time.Duration // how far back the state holds every call, as of the last step
	droppedUntil time.Time     // calls up to then may have left the state through a shorter window
	checks       int
	drawn        int
	log          []string
}

func (l *leaseHistory) logf(format string, args ...any) {
	l.log = append(l.log, fmt.Sprintf(format, args...))
}

func (l *leaseHistory) failf(format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf("%s\n%s", strings.Join(l.log, "\n"), fmt.Sprintf(format, args...))
}

// drawScope draws limits on all callers, in most cases leased.
func (l *leaseHistory) drawScope() policy.Scope {
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

// edit changes the limits on all callers, or removes or disables them.
func (l *leaseHistory) edit() {
	scope := l.drawScope()
	switch rapid.IntRange(0, 5).Draw(l.t, "edit") {
	case 0:
		scope = policy.Scope{}
	case 1:
		scope.Mode = policy.Off
	case 2: // change only the lease
		scope.Limits = l.set.Global.Limits
		if len(scope.Limits) > 0 {
			scope.Lease = min(scope.Lease, policy.Duration(policy.ShortestWindow(scope.Limits)/4))
		} else {
			scope.Lease = 0
		}
	}
	l.save(func(s *policy.Set) { s.Global = scope })
}

func (l *leaseHistory) save(change func(*policy.Set)) {
	set := must(l.Set(l.t.Context()))
	change(set)
	saved, err := l.SaveSet(l.t.Context(), *set, byTest)
	if err != nil {
		l.failf("save: %v", err)
	}
	l.set = saved
	l.logf("saved %+v, shrinking leases %+v", saved.Global, saved.ShrinkingLeases)
}

// advance moves the clock on by up to 20 s. Sometimes it also moves one environment's
// clock ahead, as after a freeze.
func (l *leaseHistory) advance() {
	most := rapid.SampledFrom([]int64{1, 10_000, 1_000_000, 1_000_000, 1_000_000, 20_000_000}).Draw(
		l.t, "at most")
	l.setNow(l.now.Add(time.Duration(rapid.Int64Range(1, most).Draw(l.t, "microseconds")) * time.Microsecond))
	if rapid.IntRange(0, 9).Draw(l.t, "freeze") == 0 {
		l.skew[rapid.IntRange(0, 2).Draw(l.t, "frozen")] += time.Duration(rapid.Int64Range(0,
			20_000).Draw(l.t, "for")) * time.Millisecond
	}
}

// setNow sets the clocks of the server and of all environments.
func (l *leaseHistory) setNow(now time.Time) {
	l.now = now
	l.setClock(l.t, now)
}

// recordStep records a step on the state with the limits in force. The state keeps calls
// only as far back as the windows of earlier steps reached. A step that is not certain,
// as of a denied call, may not have been made.
func (l *leaseHistory) recordStep(certain bool) {
	if !l.limited() {
		return
	}
	if since := l.now.Add(-l.retention); l.retention > 0 && since.After(l.droppedUntil) {
		l.droppedUntil = since
	}
	if longest := policy.LongestWindow(l.set.Global.Limits); certain || longest < l.retention {
		l.retention = longest
	}
}

// limited reports whether limits on all callers are in force.
func (l *leaseHistory) limited() bool {
	return len(l.set.Global.Limits) > 0 && l.set.Global.Mode != policy.Off
}

// check checks one call in an environment. It requires that no expired lease is used, and
// that no limit is exceeded.
func (l *leaseHistory) check(env int, path string) Result {
	c := l.checkers[env]
	before, left := l.held(c)
	got, err := c.Check(l.t.Context(), call(l.secret).to("GET", path), nil)
	if err != nil {
		l.failf("%v", err)
	}
	l.checks++
	l.logf("%d checks %s at %s: allowed %t, %v", env, path, l.now.Format("04:05.000000"),
		got.Allowed, got.Limits)
	after, now := l.held(c)
	if before != nil && before == after && now < left {
		l.drawn++
		if lease := time.Duration(l.set.Global.Lease); !l.now.Before(before.At().Add(lease)) {
			l.failf("the lease of %s taken at %s is used after its end", lease, before.At())
		}
	}
	l.recordStep(got.Allowed)
	if got.Allowed && l.limited() {
		l.admit(admitted{l.now, got.Cost, got.Reservation})
	}
	return got
}

// held returns the lease of the limits on all callers that an environment holds, and the
// calls left in it.
func (l *leaseHistory) held(c *Checker) (*lease.Lease, int64) {
	set := c.set.Load()
	if set == nil || set.Version != l.set.Version || set.SharedGlobal == nil {
		return nil, 0
	}
	return set.SharedGlobal.Held()
}

// admit counts an admitted call, and requires that the window that ends now holds no more
// than each limit.
func (l *leaseHistory) admit(a admitted) {
	l.admitted = append(l.admitted, a)
	for _, limit := range l.set.Global.Limits {
		from, sum := l.now.Add(-limit.Window), int64(0)
		for _, b := range l.admitted {
			if b.at.After(from) && b.at.After(l.droppedUntil) {
				sum += b.cost
			}
		}
		if sum > limit.Requests {
			l.failf("the window that ends now holds %d, want at most %s", sum, limit)
		}
	}
}

// checkRetryAfter requires that a denial by the limits on all callers ends exactly at its
// RetryAfter.
func (l *leaseHistory) checkRetryAfter(env int, path string, denied Result) {
	for _, u := range denied.Limits {
		if u.Scope != policy.ScopeGlobal && u.RetryAfter > 0 {
			return
		}
	}
	at := l.now.Add(denied.RetryAfter())
	l.setNow(at.Add(-time.Microsecond))
	if got := l.check(env, path); got.Allowed {
		l.failf("allowed a microsecond before %s", at)
	}
	l.setNow(at)
	if got := l.check(env, path); !got.Allowed {
		for _, u := range got.Limits {
			if u.Scope != policy.ScopeGlobal && u.RetryAfter > 0 {
				return
			}
		}
		l.failf("still denied at %s", at)
	}
}

// settle settles one of the last ten admitted calls with a random cost.
func (l *leaseHistory) settle() {
	if len(l.admitted) == 0 {
		return
	}
	a := &l.admitted[len(l.admitted)-1-rapid.IntRange(0, min(9, len(l.admitted)-1)).Draw(l.t, "settled")]
	if a.reservation == "" {
		return
	}
	l.recordStep(false)
	actual := rapid.Int64Range(0, 6).Draw(l.t, "actual")
	s, err := l.checkers[rapid.IntRange(0, 2).Draw(l.t, "by")].Settle(l.t.Context(), a.reservation, actual)
	l.logf("settled %d, of %d: %+v, %v", a.cost, actual, s, err)
	a.reservation = ""
	switch {
	case err != nil || s.Partial: // the call keeps its cost
	case actual < a.cost:
		a.cost = actual
	case actual-a.cost > s.Short && l.limited():
		l.admit(admitted{at: l.now, cost: actual - a.cost - s.Short})
	}
}

// setUp empties the server and creates a key, three routes and limits on all callers.
func (l *leaseHistory) setUp() {
	ctx, t := l.t.Context(), l.t
	if err := l.client.Do(ctx, l.client.B().Flushall().Sync().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	l.setNow(l.now)
	l.Now = func() time.Time { return l.now }
	for i := range l.checkers {
		l.checkers[i] = NewChecker(l.client, testPepper)
		l.checkers[i].Now = func() time.Time { return l.now.Add(l.skew[i]) }
	}
	l.set = &policy.Set{}
	l.save(func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "free",
			Limits: []limiter.Limit{{Requests: 1_000_000, Window: time.Hour, Algorithm: limiter.Counter}}}}
		s.Routes = []policy.Route{
			{Name: "chat", Cost: 3, Settle: true, Overdraw: policy.Forgive,
				Pattern: route.Pattern{Path: "/chat"}},
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

// Environments that lease a limit on all callers make random calls, settlements, freezes
// and edits. No rolling window of the limit in force holds more than the limit, no lease
// is used after its end, and RetryAfter is exact.
func TestLeasedRollingWindows(t *testing.T) {
	onVirtualTime(t)
	largerLeases(t)
	w := open(t, valkeytest.Start(t))
	histories, checks, drawn := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		l := &leaseHistory{world: &world{Store: registry.NewStore(w.client, testPepper), client: w.client},
			t: rt, now: time.Unix(1_800_000_000, 0)}
		l.setUp()
		for range rapid.SampledFrom([]int{20, 60, 150}).Draw(rt, "events") {
			switch event := rapid.IntRange(0, 29).Draw(rt, "event"); {
			case event == 0:
				l.edit()
			case event <= 2:
				l.settle()
			case event <= 8:
				l.advance()
			default:
				env := rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(rt, "environment")
				path := rapid.SampledFrom([]string{"/", "/", "/", "/chat", "/tight",
					"/lean"}).Draw(rt, "path")
				if got := l.check(env, path); !got.Allowed && rapid.Bool().Draw(rt, "retry") {
					l.checkRetryAfter(env, path, got)
				}
			}
		}
		histories, checks, drawn = histories+1, checks+l.checks, drawn+l.drawn
	})
	t.Logf("%d histories, %d checks, %d of them from a lease", histories, checks, drawn)
}
