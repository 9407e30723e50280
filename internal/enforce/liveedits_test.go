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
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

const (
	loadWorkers = 4
	loadCalls   = 60 // calls that each worker makes at least before the next edit
)

// load has workers that call without a pause, each with a Checker of its own.
type load struct {
	t       *testing.T
	edits   atomic.Int64 // number of acknowledged edits
	made    [loadWorkers]atomic.Int64
	allowed atomic.Int64
	done    chan struct{}
	wg      sync.WaitGroup
}

// startLoad starts workers that call with the secrets that next returns. judge validates
// the result of a call that started after this number of acknowledged edits.
func (w *world) startLoad(t *testing.T, next func() apikey.Secret,
	judge func(edits int64, c *Result, err error) error) *load {
	l := &load{t: t, done: make(chan struct{})}
	for i := range loadWorkers {
		checker := NewChecker(w.client, testPepper)
		l.wg.Go(func() {
			for !l.ended() {
				secret, edits := next(), l.edits.Load()
				c, err := checker.Check(t.Context(), call(secret), nil)
				if c.Allowed {
					l.allowed.Add(1)
				}
				if err := judge(edits, &c, err); err != nil {
					t.Errorf("after %d edits: %v", edits, err)
					return
				}
				l.made[i].Add(1)
			}
		})
	}
	return l
}

// ended reports whether the load was stopped or the test failed.
func (l *load) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return l.t.Failed()
	}
}

// waitForCalls waits until every worker has made another loadCalls calls.
func (l *load) waitForCalls() {
	var targets [loadWorkers]int64
	for i := range l.made {
		targets[i] = l.made[i].Load() + loadCalls
	}
	waiting.Until(l.t, "calls of every worker", func() bool {
		for i := range l.made {
			if l.made[i].Load() < targets[i] && !l.ended() {
				return false
			}
		}
		return true
	})
}

// edit runs change, with calls before, during and after it.
func (l *load) edit(change func()) {
	l.waitForCalls()
	change()
	l.edits.Add(1)
	l.waitForCalls()
}

// stop ends the load and returns how many calls were allowed.
func (l *load) stop() int64 {
	close(l.done)
	l.wg.Wait()
	return l.allowed.Load()
}

// hourly returns a limit per hour.
func hourly(requests int64) limiter.Limit {
	return limiter.Limit{Requests: requests, Window: time.Hour}
}

// An edit of a limit under load applies to every check that starts after it was
// acknowledged. Earlier calls stay counted: in total, as many calls are allowed as the
// highest limit admits.
func TestLimitEditsUnderLoad(t *testing.T) {
	for name, c := range map[string]struct {
		limits []limiter.Limit // in the order of the edits
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
			}, func(edits int64, c *Result, err error) error {
				if err != nil || len(c.Limits) != 1 || order[c.Limits[0].Limit] < edits {
					return fmt.Errorf("got %s, %w, want limit %d or a later one", describe(*c), err, edits)
				}
				return nil
			})
			for _, next := range c.limits[1:] {
				l.edit(func() { w.plan(t, "free", next) })
			}
			if allowed := l.stop(); allowed != c.want {
				t.Errorf("got %d allowed calls, want %d", allowed, c.want)
			}
		})
	}
}

// An edit of a plan applies to the next call of each of its 10,000 keys.
func TestPlanOfManyKeysUnderLoad(t *testing.T) {
	tier.Two(t, "makes thousands of calls")
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", hourly(100_000))
	secrets := w.createMany(t, 10_000)
	next := func() apikey.Secret { return secrets[rand.IntN(len(secrets))] }
	l := w.startLoad(t, next, func(edits int64, c *Result, err error) error {
		if err != nil || c.Limits[0].Limit.Requests < 100_000+edits || c.SetVersion < 1+edits {
			return fmt.Errorf("got %s, %w, want the newest plan", describe(*c), err)
		}
		return nil
	})
	for i := range 5 {
		l.edit(func() { w.plan(t, "free", hourly(100_001+int64(i))) })
	}
	l.stop()
	for _, secret := range secrets {
		if c := w.check(t, call(secret)); c.Limits[0].Limit.Requests != 100_005 {
			t.Fatalf("got %s, want a limit of 100,005", describe(c))
		}
	}
}

// createMany creates n keys of the plan free.
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

// An override ends by itself, exactly at its end on the server's clock.
func TestOverrideEndsUnderLoad(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", hourly(20))
	k, secret := w.create(t, "busy", "free")
	until := time.Now().Add(400 * time.Millisecond).Truncate(time.Microsecond)
	must(
		registrytest.Override(t.Context(), w, k.ID, k.Version,
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
			return fmt.Errorf("got %s, %w, want the limits of the %s", describe(*c), err, want)
		}
		return nil
	})
	for ended.Load() < loadCalls && !l.ended() {
		l.waitForCalls()
	}
	l.stop()
}

// Every check that starts after a revocation was acknowledged finds the key unknown.
func TestRevocationUnderLoad(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", hourly(1_000_000))
	k, secret := w.create(t, "busy", "free")
	l := w.startLoad(t, func() apikey.Secret {
		return secret
	}, func(edits int64, c *Result, err error) error {
		unknown := errors.Is(err, policy.ErrUnknownKey)
		if edits == 1 && !unknown || err != nil && !unknown || unknown && c.Allowed {
			return fmt.Errorf("got %s, %w, want an unknown key once it is revoked", describe(*c), err)
		}
		return nil
	})
	l.edit(func() { must(registrytest.Revoke(t.Context(), w, k.ID, k.Version, byTest)) })
	if allowed := l.stop(); allowed < loadWorkers*loadCalls {
		t.Errorf("before the revocation: got %d allowed calls, want at least %d", allowed,
			loadWorkers*loadCalls)
	}
}
