//go:build unix

package pages

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage"
	"tidegate/internal/usage/statelist"
	"tidegate/local/bench/harness"
)

// batch is the number of commands in a flush.
const batch = 5000

// seed fills a store with keys.
type seed struct {
	options
	*harness.Server
	ids    []string // of the keys
	random *rand.Rand
}

func newSeed(server *harness.Server, o options) *seed {
	return &seed{
		options: o, Server: server, ids: make([]string, o.keys),
		random: rand.New(rand.NewPCG(1, 2)), //nolint:gosec // the same data each time
	}
}

// write writes all data.
func (s *seed) write(ctx context.Context) error {
	began := time.Now()
	for _, step := range []func(context.Context) error{
		s.savePlans, s.createKeys, s.recordCalls, s.takeCalls, s.addToStateLists,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	fmt.Printf("seeded %d keys in %s\n", s.keys, time.Since(began).Round(time.Second))
	return nil
}

// plans are the plans of the keys, and overrideLimits the limits of overridden keys.
var (
	plans = []policy.Plan{
		{Name: "free", Limits: limits(10)},
		{Name: "pro", Limits: limits(100), Candidate: limits(50)},
		{Name: "enterprise", Limits: limits(1_000)},
	}
	overrideLimits = []limiter.Limit{{Requests: 25, Window: time.Minute}}
)

func limits(requests int64) []limiter.Limit {
	return []limiter.Limit{{Requests: requests, Window: 10 * time.Second},
		{Requests: 100 * requests, Window: time.Hour}}
}

func (s *seed) savePlans(ctx context.Context) error {
	return s.Edit(ctx, func(set *policy.Set) { set.Plans = append(set.Plans, plans...) })
}

// creators is the number of keys that are created at a time.
const creators = 64

// createKeys creates keys of three plans, half of them tagged, and one in a hundred each
// overridden, overridden in shadow mode, expiring soon and revoked.
func (s *seed) createKeys(ctx context.Context) error {
	return harness.Concurrently(creators, harness.Times(s.keys), func(_, i int) error {
		n := policy.NewKey{Name: fmt.Sprintf("customer-%07d", i), Env: "live", Plan: plans[planOf(i)].Name}
		if i%2 == 0 {
			n.Tags = []string{fmt.Sprintf("team-%02d", i/2%100)}
		}
		by := s.By
		by.By = audit.Actor{Kind: "user", Name: fmt.Sprintf("editor-%d", i%7)}
		k, _, err := s.Create(ctx, n, by)
		if s.ids[i] = k.ID; err != nil || i%100 > 3 {
			return err
		}
		action := audit.KeyEdit
		if i < 100 {
			action = audit.KeyOverride // rare, for the page that searches the audit for it
		}
		_, err = s.Update(ctx, k.ID, k.Version, action, by, func(k *policy.Key) { exceptional(k, i%100) })
		return err
	})
}

// planOf returns the index of the plan of the i-th key.
func planOf(i int) int { return min(i%10/4, 2) }

// exceptional makes a key overridden, overridden in shadow mode, expiring soon or
// revoked.
func exceptional(k *policy.Key, kind int) {
	soon := time.Now().Add(72 * time.Hour)
	switch kind {
	case 0, 1:
		k.Override = &policy.Override{Limits: overrideLimits, Mode: []policy.Mode{"", policy.Shadow}[kind],
			Reason: "launch", Until: soon}
	case 2:
		k.Expires = soon
	default:
		k.Status = policy.Revoked
	}
}

func (s *seed) send(ctx context.Context, commands valkey.Commands) error {
	for _, result := range s.Client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return err
		}
	}
	return nil
}

// activeKey returns the number of the i-th active key. Every tenth key is active.
func (s *seed) activeKey(i int) int { return i * (s.keys / s.active) }

// hours has the times of the active keys' calls, in hours from now.
var hours = []int{-23, -12, -3, -2, -1, 0}

// recordCalls records usage: calls by every active key in each of the hours, and by some
// active keys in every minute of the last hour.
func (s *seed) recordCalls(ctx context.Context) error {
	now := time.Now()
	r := usage.NewRecorder(usage.Options{}, time.Now)
	for _, hour := range hours {
		for i := range s.active {
			at := now.Add(time.Duration(hour)*time.Hour - time.Duration(s.random.IntN(50))*time.Minute)
			for range 1 + s.random.IntN(3) {
				r.Record(usage.Outcome{Subject: s.ids[s.activeKey(i)], Registered: true,
					Verdict: usage.Verdict(s.random.IntN(2)), Time: at})
			}
			if i%6 == 5 { // a recorder holds the totals of a few minutes only
				if err := flush(ctx, r, s.Client); err != nil {
					return err
				}
			}
		}
	}
	return s.steadyCalls(ctx, r, now)
}

// steady is the number of keys with calls in every minute of the last hour.
const steady = 500

func (s *seed) steadyCalls(ctx context.Context, r *usage.Recorder, now time.Time) error {
	for minute := range 60 {
		for i := range min(steady, s.active) {
			for range 1 + i%20 {
				r.Record(usage.Outcome{Subject: s.ids[s.activeKey(i)], Registered: true,
					Verdict: usage.Verdict(i % 2),
					Time:    now.Add(-time.Duration(minute) * time.Minute)})
			}
		}
		if err := flush(ctx, r, s.Client); err != nil {
			return err
		}
	}
	return nil
}

func flush(ctx context.Context, r *usage.Recorder, client valkey.Client) error {
	report := r.Flush(ctx, client)
	if report.Err == nil && report.Lost+report.Returned > 0 {
		return fmt.Errorf("lost %d, returned %d", report.Lost, report.Returned)
	}
	return report.Err
}

// takeCalls takes calls from the limits of the active keys.
func (s *seed) takeCalls(ctx context.Context) error {
	sha, err := s.Client.Do(ctx, s.Client.B().ScriptLoad().Script(limiter.TakeScript()).Build()).ToString()
	if err != nil {
		return err
	}
	for from := 0; from < s.active; from += batch {
		var commands valkey.Commands
		for i := from; i < min(from+batch, s.active); i++ {
			n := s.activeKey(i)
			limits := plans[planOf(n)].Limits
			if n%100 < 2 {
				limits = overrideLimits
			}
			program, err := limiter.Compile(limits, time.Now())
			if err != nil {
				return err
			}
			cost := fmt.Sprint(1 + s.random.Int64N(limits[0].Requests))
			commands = append(commands, s.Client.B().Evalsha().Sha1(sha).Numkeys(1).Key(
				keyspace.State(s.ids[n])).
				Arg(valkey.BinaryString(program), cost, "0").Build())
		}
		if err := s.send(ctx, commands); err != nil {
			return err
		}
	}
	return nil
}

// listed is the number of keys in each list of states. All of them may have left the
// state by now. This is the worst case for a page, which then reads every key.
const listed = 2000

// addToStateLists adds keys to the lists of states.
func (s *seed) addToStateLists(ctx context.Context) error {
	var commands valkey.Commands
	for i := range min(listed, s.active) {
		for _, list := range []statelist.List{statelist.OverLimit, statelist.Banned, statelist.NearLimit} {
			commands = append(commands,
				statelist.Add(s.Client, list, s.ids[s.activeKey(i)], time.Now().Add(time.Hour))...)
		}
	}
	return s.send(ctx, commands)
}
