//go:build unix

package check

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
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
	"tidegate/local/bench/keys"
	"tidegate/local/bench/runtimeapi"
	"tidegate/local/bench/serverinfo"
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
				return nothing.Exec(ctx, b.client, []string{"{bench}" + strconv.Itoa(i%callers)},
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
	median := func(i int) float64 {
		return figures.Median(spent[i], func(micros float64) float64 { return micros })
	}
	return []figures.Figure{
		figures.Of("check.server_us", median(1), "µs"),
		figures.Of("check.server_vs_evalsha", median(1)/median(0), "ratio"),
		figures.Of("check.server_two_vs_evalsha", median(2)/median(0), "ratio"),
		figures.Of("check.recorded_vs_evalsha", median(3)/median(0), "ratio"),
	}, nil
}

// checks returns a function that checks call i with key i modulo the number of keys.
func checks(ctx context.Context, checker *enforce.Checker, keys []keys.Key) func(int) error {
	return func(i int) error {
		key := keys[i%len(keys)]
		call := enforce.Call{Kind: policy.APIKey, Subject: key.ID, Secret: key.Secret}
		call.Route = route.Call{API: "api", Stage: "prod", Method: "GET", Path: "/orders"}
		result, err := checker.Check(ctx, call, nil)
		if err == nil && !result.Allowed {
			err = runtimeapi.ErrAnswer
		}
		return err
	}
}

// keysOf makes keys of a new plan.
func (b *bench) keysOf(ctx context.Context, plan string, limits ...limiter.Limit) ([]keys.Key, error) {
	if err := b.keys.Plan(ctx, plan, limits...); err != nil {
		return nil, err
	}
	return b.keys.Make(ctx, plan, "test", callers)
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
func (b *bench) processorTime(ctx context.Context) (float64, error) {
	info, err := serverinfo.Read(ctx, b.client, "cpu")
	if err != nil {
		return 0, err
	}
	return figures.Micros(info.MainThread()), info.Err()
}
