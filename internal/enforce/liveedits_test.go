package enforce

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

const (
	loaders   = 4
	loadCalls = 60 // that each loader makes before the next edit at least
)

// load is callers who never stop calling, each from a check function of its own.
type load struct {
	t       *testing.T
	phase   atomic.Int64 // edits that were acknowledged
	made    [loaders]atomic.Int64
	allowed atomic.Int64
	done    chan struct{}
	wg      sync.WaitGroup
}

// startLoad calls with what next returns. judge says what is wrong with the answer to a
// call that started after so many edits were acknowledged.
func (w *world) startLoad(t *testing.T, next func() apikey.Secret,
	judge func(phase int64, c *Result, err error) error) *load {
	l := &load{t: t, done: make(chan struct{})}
	for i := range loaders {
		checker := NewChecker(w.client, testPepper)
		l.wg.Go(func() {
			for !l.over() {
				secret, phase := next(), l.phase.Load()
				c, err := checker.Check(t.Context(), call(secret), nil)
				if c.Allowed {
					l.allowed.Add(1)
				}
				if err := judge(phase, &c, err); err != nil {
					t.Errorf("after %d edits: %v", phase, err)
					return
				}
				l.made[i].Add(1)
			}
		})
	}
	return l
}

func (l *load) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return l.t.Failed()
	}
}

// pass waits until every loader has made some calls more.
func (l *load) pass() {
	var targets [loaders]int64
	for i := range l.made {
		targets[i] = l.made[i].Load() + loadCalls
	}
	waiting.Until(l.t, "calls of every loader", func() bool {
		for i := range l.made {
			if l.made[i].Load() < targets[i] && !l.over() {
				return false
			}
		}
		return true
	})
}

// edit edits while calls are made before, during and after.
func (l *load) edit(change func()) {
	l.pass()
	change()
	l.phase.Add(1)
	l.pass()
}

// stop ends the load and returns how many calls were allowed.
func (l *load) stop() int64 {
	close(l.done)
	l.wg.Wait()
	return l.allowed.Load()
}

func hourly(requests int64) limiter.Limit {
	return limiter.Limit{Requests: requests, Window: time.Hour}
}

// Whatever is edited under load, every check that starts after the save was acknowledged
// obeys, and what was used stays used: over all of it as many calls are allowed as the
// highest limit says.
func TestLimitEditsUnderLoad(t *testing.T) {
	for name, c := range map[string]struct {
		limits []limiter.Limit // one after the other
		want   int64
	}{
		"raise": {[]limiter.Limit{hourly(50), hourly(80), hourly(200)}, 200},
		"lower": {[]limiter.Limit{hourly(80), hourly(10), hourly(79)}, 80},
		"window": {[]limiter.Limit{hourly(50), {Requests: 50, Window: 2 * time.Hour},
			{Requests: 50, Window: 30 * time.Minute}}, 50},
		"slots": {[]limiter.Limit{hourly(100), {Requests: 100, Window: time.Hour, Slots: 64},
			{Requests: 100, Window: time.Hour, Slots: 70}}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, valkeytest.Start(t))
			w.plan(t, "free", c.limits[0])
			_, secret := w.create(t, "busy", "free")
			order := map[limiter.Limit]int64{}
			for i, l := range c.limits {
				order[l] = max(order[l], int64(i))
			}
			l := w.startLoad(t, func() apikey.Secret {
				return secret
			}, func(phase int64, c *Result, err error) error {
				if err != nil || len(c.Limits) != 1 || order[c.Limits[0].Limit] < phase {
					return fmt.Errorf("%s, %w", describe(*c), err)
				}
				return nil
			})
			for _, next := range c.limits[1:] {
				l.edit(func() { w.plan(t, "free", next) })
			}
			if allowed := l.stop(); allowed != c.want {
				t.Errorf("%d calls allowed, want %d", allowed, c.want)
			}
		})
	}
}

// A plan of 10,000 keys is edited as one: whichever key calls next obeys.
func TestPlanOfManyKeysUnderLoad(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", hourly(100_000))
	secrets := w.createMany(t, 10_000)
	next := func() apikey.Secret { return secrets[rand.IntN(len(secrets))] }
	l := w.startLoad(t, next, func(phase int64, c *Result, err error) error {
		if err != nil || c.Limits[0].Limit.Requests < 100_000+phase || c.SetVersion < 1+phase {
			return fmt.Errorf("%s, %w", describe(*c), err)
		}
		return nil
	})
	for i := range 5 {
		l.edit(func() { w.plan(t, "free", hourly(100_001+int64(i))) })
	}
	l.stop()
	// And every single one of them, once.
	for _, secret := range secrets {
		if c := w.check(t, call(secret)); c.Limits[0].Limit.Requests != 100_005 {
			t.Fatalf("%s: an old plan", describe(c))
		}
	}
}

func (w *world) createMany(t *testing.T, n int) []apikey.Secret {
	t.Helper()
	secrets := make([]apikey.Secret, n)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < n; i += 8 {
				var err error
				if _, secrets[i], err = w.Create(t.Context(), policy.NewKey{Name: fmt.Sprintf("key %d", i),
					Env: "test", Plan: "free"}, byTest); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return secrets
}

// An override ends at its instant on the server's clock, to the microsecond, without
// anybody's doing.
func TestOverrideEndsUnderLoad(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", hourly(20))
	k, secret := w.create(t, "busy", "free")
	until := time.Now().Add(400 * time.Millisecond).Truncate(time.Microsecond)
	must(
		w.SetOverride(t.Context(), k.ID, k.Version,
			&policy.Override{Limits: []limiter.Limit{hourly(1_000_000)}, Until: until,
				Reason: "burst"}, byTest),
	)
	var ended atomic.Int64
	l := w.startLoad(t, func() apikey.Secret { return secret }, func(_ int64, c *Result, err error) error {
		want := "override"
		if !c.Now.Before(until) {
			want = "plan"
			ended.Add(1)
		}
		if err != nil || c.Source != want || want == "override" && !c.Allowed {
			return fmt.Errorf("%s, %w; want the %s", describe(*c), err, want)
		}
		return nil
	})
	for ended.Load() < loadCalls && !l.over() {
		l.pass()
	}
	l.stop()
}

// A revoked key is unknown to every check that starts after the revocation was
// acknowledged.
func TestRevocationUnderLoad(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", hourly(1_000_000))
	k, secret := w.create(t, "busy", "free")
	l := w.startLoad(t, func() apikey.Secret {
		return secret
	}, func(phase int64, c *Result, err error) error {
		unknown := errors.Is(err, policy.ErrUnknownKey)
		if phase == 1 && !unknown || err != nil && !unknown || unknown && c.Allowed {
			return fmt.Errorf("%s, %w", describe(*c), err)
		}
		return nil
	})
	l.edit(func() { must(w.Revoke(t.Context(), k.ID, k.Version, byTest)) })
	if allowed := l.stop(); allowed < loaders*loadCalls {
		t.Errorf("%d calls allowed before, want %d at least", allowed, loaders*loadCalls)
	}
}
