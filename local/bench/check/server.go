//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/usage"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/runtimeapi"
)

const (
	inFlight     = 50 // connections, each with one call in flight
	serverRounds = 9
	warmSeconds  = 30 // seconds of recorded calls before the measurement
	// The mix of recorded calls: the number of environments; calls a second and callers a
	// minute of each environment; the number of all callers.
	environments, callsASecond, callersAMinute, allCallers = 100, 10, 50, 20_000
)

// serverTime compares Valkey's processor time for a check with that for an EVALSHA of
// three arguments that does nothing. It also measures what recording adds to a call.
func (b *bench) serverTime(ctx context.Context) ([]figures.Figure, error) {
	one, err := b.keysOf(ctx, "one", limiter.Limit{Requests: 100_000, Window: time.Hour})
	if err != nil {
		return nil, err
	}
	two, err := b.keysOf(ctx, "two",
		limiter.Limit{Requests: 100_000, Window: time.Hour},
		limiter.Limit{Requests: 200_000, Window: 2 * time.Hour})
	if err != nil {
		return nil, err
	}
	nothing := valkey.NewLuaScript("return 1")
	checker := enforce.NewChecker(b.client, apikey.Pepper(pepper))
	record := b.recording(ctx)
	for range warmSeconds {
		if _, err := b.spent(ctx, environments, record()); err != nil {
			return nil, fmt.Errorf("server time: %w", err)
		}
	}
	work := []func() (float64, error){
		func() (float64, error) {
			return b.spent(ctx, b.calls/4, func(i int) error {
				return nothing.Exec(ctx, b.client, []string{"{bench}" + strconv.Itoa(i%keys)},
					[]string{"a", "b", "c"}).Error()
			})
		},
		func() (float64, error) { return b.spent(ctx, b.calls/4, checks(ctx, checker, one)) },
		func() (float64, error) { return b.spent(ctx, b.calls/4, checks(ctx, checker, two)) },
		func() (float64, error) {
			micros, err := b.spent(ctx, environments, record())
			return micros / callsASecond, err
		},
	}
	spent := make([][]float64, len(work))
	for range serverRounds {
		for i, do := range work {
			micros, err := do()
			if err != nil {
				return nil, fmt.Errorf("server time: %w", err)
			}
			spent[i] = append(spent[i], micros)
		}
	}
	for i := range spent {
		slices.Sort(spent[i])
	}
	median := func(i int) float64 { return spent[i][serverRounds/2] }
	return []figures.Figure{
		figures.Of("check.server_us", median(1), "µs"),
		figures.Of("check.server_vs_evalsha", median(1)/median(0), "ratio"),
		figures.Of("check.server_two_vs_evalsha", median(2)/median(0), "ratio"),
		figures.Of("check.recorded_vs_evalsha", median(3)/median(0), "ratio"),
	}, nil
}

// checks returns a function that checks call i with key i modulo the number of keys.
func checks(ctx context.Context, checker *enforce.Checker, keys []apikey.Secret) func(int) error {
	return func(i int) error {
		secret := keys[i%len(keys)]
		call := enforce.Call{Kind: policy.APIKey, Subject: secret.ID(), Secret: secret}
		call.Route = route.Call{API: "api", Stage: "prod", Method: "GET", Path: "/orders"}
		result, err := checker.Check(ctx, call, nil)
		if err == nil && !result.Allowed {
			err = runtimeapi.ErrAnswer
		}
		return err
	}
}

// keysOf makes keys of a new plan.
func (b *bench) keysOf(ctx context.Context, plan string, limits ...limiter.Limit) ([]apikey.Secret, error) {
	set, err := b.policy.Set(ctx)
	if err != nil {
		return nil, fmt.Errorf("server time: %w", err)
	}
	set.Plans = append(set.Plans, policy.Plan{Name: plan, Limits: limits})
	if _, err := b.policy.SaveSet(ctx, *set, edit); err != nil {
		return nil, fmt.Errorf("server time: %w", err)
	}
	secrets := make([]apikey.Secret, keys)
	for i := range secrets {
		if _, secrets[i], err = b.policy.Create(ctx, policy.NewKey{Name: "bench", Env: "test", Plan: plan},
			edit); err != nil {
			return nil, fmt.Errorf("server time: %w", err)
		}
	}
	return secrets, nil
}

// recording returns a function that records one second of calls. The function that this
// returns sends the records of environment i.
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
			return batch.Acknowledge(b.client.DoMulti(ctx, batch.Commands(b.client)...)).Err
		}
	}
}

// spent calls work n times, inFlight at once. It returns the server's processor time for
// one call of work, in microseconds.
func (b *bench) spent(ctx context.Context, n int, work func(i int) error) (float64, error) {
	before, err := b.processorTime(ctx)
	if err != nil {
		return 0, err
	}
	var wait sync.WaitGroup
	failed := make([]error, inFlight)
	for c := range inFlight {
		wait.Go(func() {
			for i := c; i < n && failed[c] == nil; i += inFlight {
				failed[c] = work(i)
			}
		})
	}
	wait.Wait()
	for _, err := range failed {
		if err != nil {
			return 0, err
		}
	}
	after, err := b.processorTime(ctx)
	return (after - before) / float64(n), err
}

// processorTime is the processor time of the server's main thread, in microseconds.
func (b *bench) processorTime(ctx context.Context) (micros float64, err error) {
	info, err := b.client.Do(ctx, b.client.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys_main_thread" || name == "used_cpu_user_main_thread" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("processor time: %w", err)
			}
			micros += seconds * 1e6
		}
	}
	return micros, nil
}
