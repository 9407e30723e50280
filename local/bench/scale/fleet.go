//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/store"
	"tidegate/local/bench"
)

// environments is the number of environments that check at the same time.
const environments = 64

// fleet is environments that check like those of the check function: on their own
// connections, one call at a time.
type fleet []*environment

type environment struct {
	client  valkey.Client
	checker *enforce.Checker
	records *records.Recorder // nil to record nothing
}

func newFleet(ctx context.Context, server *bench.Server, recording bool) (fleet, error) {
	var f fleet
	for range environments {
		client, err := store.Open(ctx, server.URL, bench.Options(true))
		if err != nil {
			return nil, err
		}
		server.OnClose(client.Close)
		e := &environment{client: client, checker: enforce.NewChecker(client, apikey.Pepper(bench.Pepper))}
		if recording {
			e.records = records.NewRecorder(time.Now)
		}
		f = append(f, e)
	}
	return f, nil
}

// run makes checks as long as more returns true. The calls take turns.
func (f fleet) run(ctx context.Context, calls []enforce.Call, more func(int) bool) (
	made, allowed int64, err error) {
	var all, passed atomic.Int64
	err = bench.Concurrently(len(f), more, func(worker, i int) error {
		ok, err := f[worker].check(ctx, calls[i%len(calls)])
		all.Add(1)
		if ok {
			passed.Add(1)
		}
		return err
	})
	return all.Load(), passed.Load(), err
}

// check reports whether a call is allowed. That of an unknown key is denied. What is
// recorded leaves after the answer.
func (e *environment) check(ctx context.Context, call enforce.Call) (allowed bool, err error) {
	result, err := e.checker.Check(ctx, call)
	if errors.Is(err, policy.ErrUnknownKey) {
		return false, nil
	}
	if err == nil && e.records != nil {
		recorded := records.Call{Caller: call.Subject, Registered: true, Cost: 1, Time: time.Now()}
		if !result.Allowed {
			recorded.Cause = cause.Limit
		}
		e.records.Record(recorded)
		e.records.Send(ctx, e.client)
	}
	return result.Allowed, err
}

// cost is what checks cost the servers, in microseconds a check.
type cost struct {
	rate    float64 // checks a second
	process float64 // processor time of all servers
	script  float64 // thereof in scripts
	hottest float64 // processor time of the busiest server
	share   float64 // scripts of the busiest server, relative to an even share
}

// measure makes calls that are all allowed, or all denied, as fast as the fleet can. It
// returns the run with the median processor time.
func (f fleet) measure(ctx context.Context, o options, s *bench.Server, calls []enforce.Call,
	allowed bool) (cost, error) {
	var runs []cost
	for range o.repeats {
		var made, passed int64
		began := time.Now()
		used, err := bench.During(ctx, s.Nodes, func() (err error) {
			made, passed, err = f.run(ctx, calls, bench.For(o.slice))
			return err
		})
		if err != nil {
			return cost{}, err
		}
		if allowed && passed < made || !allowed && passed > 0 {
			return cost{}, fmt.Errorf("%d of %d checks were allowed, want all or none", passed, made)
		}
		c := cost{rate: float64(made) / time.Since(began).Seconds()}
		var scripts, most int64
		for _, u := range used {
			ran, took := u.Of("evalsha", "eval")
			scripts, most = scripts+ran, max(most, ran)
			c.process += bench.Micros(u.Processor) / float64(made)
			c.script += bench.Micros(took) / float64(made)
			c.hottest = max(c.hottest, bench.Micros(u.Processor)/float64(made))
		}
		c.share = float64(most) * float64(len(used)) / float64(scripts)
		runs = append(runs, c)
	}
	slices.SortFunc(runs, func(a, b cost) int { return cmp.Compare(a.process, b.process) })
	return runs[len(runs)/2], nil
}
