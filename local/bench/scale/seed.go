//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/local/bench"
)

// seed is a server full of keys and their usage, for the dashboard.
type seed struct {
	*bench.Server
	calls  []enforce.Call // with each key
	random *rand.Rand
}

// active returns the number of the i-th active key. Every tenth key is active.
func (s *seed) active(i int) int { return 10 * i }

// actives returns the number of active keys.
func (s *seed) actives() int { return len(s.calls) / 10 }

func newSeed(ctx context.Context, o options) (*seed, error) {
	server, err := bench.Start(ctx, 0)
	if err != nil {
		return nil, err
	}
	s := &seed{Server: server, calls: make([]enforce.Call, o.keys),
		random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // the same data each time
	began := time.Now()
	for _, step := range []func(context.Context) error{
		s.createKeys, s.editKeys, s.recordCalls, s.takeCalls, s.addToStateLists,
	} {
		if err := step(ctx); err != nil {
			s.Close()
			return nil, fmt.Errorf("seed: %w", err)
		}
	}
	_, _ = fmt.Fprintf(os.Stderr, "seeded %d keys in %s\n", o.keys, time.Since(began).Round(time.Second))
	return s, nil
}

// workers is the number of keys that are checked at a time.
const workers = 64

// createKeys creates keys of three plans, half of them tagged, and one in a hundred each
// overridden, expiring soon and revoked.
func (s *seed) createKeys(ctx context.Context) error {
	var plans []policy.Plan
	for i, name := range []string{"free", "pro", "enterprise"} {
		requests := []int64{10, 100, 1_000}[i]
		plans = append(plans, policy.Plan{Name: name,
			Limits: []limits.Limit{limit(requests, 10*time.Second), limit(100*requests, time.Hour)}})
	}
	if err := s.Edit(ctx, func(set *policy.Set) { set.Plans = append(set.Plans, plans...) }); err != nil {
		return err
	}
	set, err := s.Set(ctx)
	if err != nil {
		return err
	}
	keys := make([]policy.Key, len(s.calls))
	for i := range keys {
		k := policy.Key{Name: fmt.Sprintf("customer-%07d", i), Env: "live",
			PlanNumber: set.Plans[min(i%10/4, 2)].Number}
		if i%2 == 0 {
			k.Tags = []string{fmt.Sprintf("team-%02d", i/2%100)}
		}
		if i%100 <= 2 {
			exceptional(&k, i%100)
		}
		keys[i] = k
	}
	s.calls, err = s.CreateKeys(ctx, keys)
	return err
}

// singles is the number of single changes in the audit, after those that create keys.
const singles = 2_000

// editKeys edits some keys one by one. Of the first, two are overridden: rare, for the page
// that searches the audit for it.
func (s *seed) editKeys(ctx context.Context) error {
	for i := range min(singles, len(s.calls)/10) {
		action, by := registry.KeyEdit, s.By
		by.By = registry.Actor{Kind: "user", Name: fmt.Sprintf("editor-%d", i%7)}
		change := func(k *policy.Key) { k.Tags = []string{"edited"} }
		if i < 2 {
			action, change = registry.KeyOverride, func(k *policy.Key) { exceptional(k, 0) }
		}
		k, err := s.Get(ctx, s.calls[s.active(i)+3].Subject)
		if err != nil {
			return err
		}
		if _, err := s.Update(ctx, k.ID, k.Version, action, by, change); err != nil {
			return err
		}
	}
	return s.CatchUp(ctx) // adds them to the audit in Valkey
}

func exceptional(k *policy.Key, kind int) {
	soon := time.Now().Add(72 * time.Hour)
	switch kind {
	case 0:
		k.Override = &policy.Override{Limits: []limits.Limit{limit(25, time.Minute)}, Reason: "launch",
			Until: soon}
	case 1:
		k.Expires = soon
	default:
		k.Status = policy.Revoked
	}
}

// recordCalls records calls of the active keys in some of the last hours, and of some in
// every minute of the last hour.
func (s *seed) recordCalls(ctx context.Context) error {
	now, r := time.Now(), records.NewRecorder(time.Now)
	record := func(i, calls int, at time.Time) {
		for range calls {
			call := records.Call{Caller: s.calls[s.active(i)].Subject, Registered: true, Cost: 1, Time: at}
			if s.random.IntN(2) == 1 {
				call.Cause = cause.Limit
			}
			r.Record(call)
		}
	}
	for _, hour := range []int{-23, -12, -3, -2, -1, 0} {
		for i := range s.actives() {
			record(i, 1+s.random.IntN(3),
				now.Add(time.Duration(hour)*time.Hour-time.Duration(s.random.IntN(50))*time.Minute))
			if i%6 == 5 { // a recorder holds the totals of a few minutes only
				if err := r.Flush(ctx, s.Client).Err; err != nil {
					return err
				}
			}
		}
	}
	for minute := range 60 {
		for i := range min(500, s.actives()) {
			record(i, 1+i%20, now.Add(-time.Duration(minute)*time.Minute))
		}
		if err := r.Flush(ctx, s.Client).Err; err != nil {
			return err
		}
	}
	return nil
}

// takeCalls makes a few calls of each active key.
func (s *seed) takeCalls(ctx context.Context) error {
	checker := enforce.NewChecker(s.Client, apikey.Pepper(bench.Pepper))
	return bench.Concurrently(workers, bench.Times(3*s.actives()), func(_, i int) error {
		n := s.active(i % s.actives())
		_, err := checker.Check(ctx, s.calls[n])
		return err
	})
}

// addToStateLists adds keys to the lists of states. All of them may have left the state by
// now: the worst case for a page, which then reads every key.
func (s *seed) addToStateLists(ctx context.Context) error {
	r := records.NewRecorder(time.Now)
	for i := range min(2000, s.actives()) {
		r.Record(records.Call{Caller: s.calls[s.active(i)].Subject, Registered: true, Time: time.Now(),
			Cause: cause.Limit, Limit: "10 per 10 seconds", RetryAfter: time.Hour, NearFor: time.Hour})
		if i%200 == 199 {
			if err := r.Flush(ctx, s.Client).Err; err != nil {
				return err
			}
		}
	}
	return r.Flush(ctx, s.Client).Err
}
