//go:build unix

package check

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/usage"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/harness"
)

const (
	inFlight     = 50 // connections, each with one call in flight
	serverRounds = 9
	warmSeconds  = 30 // seconds of recorded calls before the measurement
	// The recorded calls: the number of environments, the calls a second and the callers
	// of each environment, and the number of callers in total.
	environments, callsASecond, callersAMinute, allCallers = 100, 10, 50, 20_000
)

// serverTime compares Valkey's processor time for a check with that for an EVALSHA with
// three arguments that does nothing. It also measures the time for a call's usage record.
func (b *bench) serverTime(ctx context.Context) ([]figures.Figure, error) {
	hourly := limiter.Limit{Requests: 100_000, Window: time.Hour}
	one, err := b.keysOf(ctx, "one", hourly)
	if err != nil {
		return nil, err
	}
	two, err := b.keysOf(ctx, "two", hourly, limiter.Limit{Requests: 200_000, Window: 2 * time.Hour})
	if err != nil {
		return nil, err
	}
	record := b.recording(ctx)
	for range warmSeconds {
		if _, err := b.spent(ctx, environments, record()); err != nil {
			return nil, fmt.Errorf("server time: %w", err)
		}
	}
	nothing := valkey.NewLuaScript("return 1")
	checker := enforce.NewChecker(b.Client, apikey.Pepper(harness.Pepper))
	medians, err := figures.Repeat(serverRounds, func() ([]figures.Figure, error) {
		var spent []figures.Figure
		for _, w := range []struct {
			name  string
			calls int
			call  func(i int) error
		}{
			{"nothing", b.calls / 4, func(i int) error {
				return nothing.Exec(ctx, b.Client, []string{"{bench}" + strconv.Itoa(i%callers)},
					[]string{"a", "b", "c"}).Error()
			}},
			{"one limit", b.calls / 4, checks(ctx, checker, one)},
			{"two limits", b.calls / 4, checks(ctx, checker, two)},
			{"record", environments, record()},
		} {
			micros, err := b.spent(ctx, w.calls, w.call)
			if err != nil {
				return nil, fmt.Errorf("server time: %s: %w", w.name, err)
			}
			spent = append(spent, figures.Of(w.name, micros, "µs"))
		}
		return spent, nil
	})
	if err != nil {
		return nil, err
	}
	evalsha := medians[0].Value
	return []figures.Figure{
		figures.Of("check.server_us", medians[1].Value, "µs"),
		figures.Of("check.server_vs_evalsha", medians[1].Value/evalsha, "ratio"),
		figures.Of("check.server_two_vs_evalsha", medians[2].Value/evalsha, "ratio"),
		figures.Of("check.recorded_vs_evalsha", medians[3].Value/callsASecond/evalsha, "ratio"),
	}, nil
}

// checks returns a function that makes check i with the key of index i modulo the number
// of keys.
func checks(ctx context.Context, checker *enforce.Checker, keys []harness.Key) func(int) error {
	return func(i int) error {
		key := keys[i%len(keys)]
		call := enforce.Call{Kind: policy.APIKey, Subject: key.ID, Secret: key.Secret}
		call.Route = route.Call{API: "api", Stage: "prod", Method: "GET", Path: "/orders"}
		result, err := checker.Check(ctx, call, nil)
		if err == nil && !result.Allowed {
			err = errDenied
		}
		return err
	}
}

// keysOf creates a plan with the limits and its keys.
func (b *bench) keysOf(ctx context.Context, plan string, limits ...limiter.Limit) ([]harness.Key, error) {
	if err := b.Plan(ctx, plan, limits...); err != nil {
		return nil, err
	}
	return b.Keys(ctx, plan, "test", callers)
}

// recording returns a function that records one second of calls in every environment.
// That function in turn returns a function that sends the records of environment i.
func (b *bench) recording(ctx context.Context) func() func(int) error {
	now := time.Now()
	recorders, callers := make([]*usage.Recorder, environments), make([][]string, environments)
	for i := range recorders {
		recorders[i] = usage.NewRecorder(usage.Options{}, func() time.Time { return now })
		for range callersAMinute {
			callers[i] = append(callers[i], fmt.Sprintf("caller%06d", rand.IntN(allCallers))) //nolint:gosec // spreads load
		}
	}
	return func() func(int) error {
		for i, r := range recorders {
			for range callsASecond {
				subject := callers[i][rand.IntN(callersAMinute)] //nolint:gosec // spreads load
				r.Record(usage.Outcome{Subject: subject, Registered: true, Cost: 1, Time: now})
			}
		}
		now = now.Add(time.Second)
		return func(i int) error {
			batch := recorders[i].Batch(now)
			return batch.Acknowledge(b.Client.DoMulti(ctx, batch.Commands(b.Client)...)).Err
		}
	}
}

// spent calls work n times, inFlight at once. It returns the processor time of the
// server's main thread for one call of work, in microseconds.
func (b *bench) spent(ctx context.Context, n int, work func(i int) error) (float64, error) {
	done, err := figures.During(ctx, []valkey.Client{b.Client}, func() error {
		return harness.Concurrently(inFlight, harness.Times(n), func(_, i int) error { return work(i) })
	})
	if err != nil {
		return 0, err
	}
	return figures.Micros(done[0].MainThread) / float64(n), nil
}
