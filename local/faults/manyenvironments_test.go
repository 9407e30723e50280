//go:build unix

package faults

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/decide"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/internal/store/acl"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// light is what one environment of the check function is to Valkey, without its process:
// its client, Checker and Decider.
type light struct{ *enforce.Checker }

func (l light) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	ctx, cancel := store.WithTimeouts(ctx, 3*calm/2, waiting.Timeout)
	defer cancel()
	return store.Retry(ctx, func(ctx context.Context) (enforce.Result, error) {
		return l.Checker.Check(ctx, call)
	})
}

func (l light) Loaded() *enforce.Checker { return l.Checker }

// newLight connects an environment.
func newLight(t *testing.T, url string) *decide.Decider {
	t.Helper()
	o := store.Options{Dial: waiting.Timeout, Write: calm, Pooled: true}
	client, err := store.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	checker := enforce.NewChecker(client, apikey.Pepper(pepper))
	if err := checker.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return decide.NewDecider(light{checker}, decide.Settings{
		CallerCache: time.Hour, Sectors: 16}, time.Now)
}

// crowd is many environments, each with two calls a second.
type crowd struct {
	running                sync.WaitGroup
	stop                   context.CancelFunc
	calls, failed, without atomic.Int64
}

func startCrowd(t *testing.T, url string, size int, callers []caller) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &crowd{stop: cancel}
	t.Cleanup(c.end)
	for i := range size {
		decider, k := newLight(t, url), callers[i%len(callers)]
		call := enforce.Call{Kind: policy.APIKey, Subject: k.key.ID, Secret: k.secret}
		c.running.Go(func() {
			turn := time.NewTicker(time.Second / 2)
			defer turn.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-turn.C:
				}
				result, _, err := decider.Decide(context.WithoutCancel(ctx), call)
				c.calls.Add(1)
				switch {
				case err != nil || !result.Allowed:
					c.failed.Add(1)
				case result.Degraded:
					c.without.Add(1)
				}
			}
		})
	}
	return c
}

func (c *crowd) end() {
	c.stop()
	c.running.Wait()
}

// While a serverless cache answers CLUSTERDOWN to 500 environments for 3 s, each asks for
// the topology at most four times a second, and not all of them at once. Two seconds
// later, Valkey decides again.
func TestManyEnvironmentsClusterDown(t *testing.T) {
	skipUnlessFaults(t)
	const size, refused, whole, slice = 500, 3 * time.Second, 2 * time.Second, 100 * time.Millisecond
	cache := valkeytest.StartServerless(t)
	w := newWorld(t, []string{cache.URL()}, "")
	w.plans(t, fmt.Sprint(allowance, " per day"))
	user := valkeytest.As(t, cache.URL(), "check", acl.Rules(acl.Check()))
	c := startCrowd(t, user, size, w.callers(t, 40, "open"))
	during(t, 2*time.Second)
	asked, made, began := cache.Asked(), cache.Connections(), time.Now()
	cache.Refuse(math.MaxInt, "CLUSTERDOWN for this test")
	var bySlice []int
	for last := asked; time.Since(began) < refused; {
		during(t, slice)
		now := cache.Asked()
		bySlice, last = append(bySlice, now-last), now
	}
	cache.Refuse(0, "")
	lasted, questions, connections := time.Since(began), cache.Asked()-asked, cache.Connections()-made
	during(t, whole)
	without := c.without.Load()
	during(t, whole)
	late := c.without.Load() - without
	c.end()
	perSecond := float64(questions) / lasted.Seconds()
	most := slices.Max(bySlice)
	if perSecond > 4*size || most > size || late > 0 || c.failed.Load() > 0 {
		t.Errorf("got %.0f questions a second, at most %d in %s; %d calls without Valkey after %s, %d "+
			"refused; want at most %d, %d, 0 and 0", perSecond, most, slice, late, whole, c.failed.Load(),
			4*size, size)
	}
	report(t, fmt.Sprintf("CLUSTERDOWN for 3 s, %d environments", size),
		"whole ≤ 2 s later; an environment asks ≤ 4 times a second, not all at once", fmt.Sprintf(
			"%d calls, %d refused, %d degraded; together %.0f questions a second, at most %d in 0.1 s; "+
				"%d connections", c.calls.Load(), c.failed.Load(), c.without.Load(), perSecond, most,
			connections))
}
