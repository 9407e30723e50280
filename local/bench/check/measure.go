//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/runtimeapi"
	server "tidegate/local/valkey"
)

const pepper = "a pepper that only this benchmark uses"

// bench is a Valkey with a key that may call, and the functions that are measured.
type bench struct {
	options
	api     *runtimeapi.API
	url     string
	client  valkey.Client // as the function has one
	policy  *registry.Store
	env     []string
	secrets []string
	events  [][]byte // one for each key
	closers []func()
}

// open starts a Valkey and makes the keys in it. The bench is closed even after an error.
func open(ctx context.Context, o options) (*bench, error) {
	b := &bench{options: o}
	s, err := server.Installed(ctx)
	if err != nil {
		return b, err
	}
	b.closers = append(b.closers, s.Close)
	b.url, b.env = s.URL, []string{"VALKEY_URL=" + s.URL, "KEY_PEPPER=" + pepper}
	if b.api, err = runtimeapi.New(); err != nil {
		return b, err
	}
	b.closers = append(b.closers, b.api.Close)
	if b.client, err = store.Open(ctx, s.URL, store.Options{Pooled: true}); err != nil {
		return b, err
	}
	b.closers = append(b.closers, b.client.Close)
	return b, b.prepare(ctx)
}

// close ends what open started, the last first.
func (b *bench) close() {
	for _, end := range slices.Backward(b.closers) {
		end()
	}
}

func measure(ctx context.Context, o options) ([]figures.Figure, error) {
	b, err := open(ctx, o)
	defer b.close()
	if err != nil {
		return nil, err
	}
	measured, err := b.trips(ctx)
	if err != nil {
		return nil, err
	}
	after, err := b.afterAnswers(ctx)
	if err != nil {
		return nil, err
	}
	starts, err := b.coldStarts(ctx)
	if err != nil {
		return nil, err
	}
	compared, err := b.compared(ctx)
	if err != nil {
		return nil, err
	}
	server, err := b.serverTime(ctx)
	if err != nil {
		return nil, err
	}
	shared, err := b.sharedLimit(ctx) // after the others: it changes the policies
	if err != nil {
		return nil, err
	}
	sizes, err := b.sizes()
	return slices.Concat(measured, after, compared, server, shared, starts, sizes), err
}

// edit names the benchmark in the audit.
var edit = registry.Edit{By: audit.Actor{Kind: "system", Name: "bench"}}

// keys is so many that none comes near its limits.
const keys = 400

// prepare makes keys of a plan with two limits.
func (b *bench) prepare(ctx context.Context) error {
	registry := registry.NewStore(b.client, apikey.Pepper(pepper))
	b.policy = registry
	set, err := registry.Set(ctx)
	if err != nil {
		return err
	}
	limits := []limiter.Limit{{Requests: 100, Window: 10 * time.Second},
		{Requests: 1000, Window: 10 * time.Minute}}
	set.Plans, set.TokenPlan = []policy.Plan{{Name: "pro", Limits: limits}}, "pro"
	if _, err := registry.SaveSet(ctx, *set, edit); err != nil {
		return err
	}
	for range keys {
		_, secret, err := registry.Create(ctx, policy.NewKey{Name: "bench", Env: "test", Plan: "pro"}, edit)
		if err != nil {
			return err
		}
		b.secrets = append(b.secrets, secret.Reveal())
		b.events = append(b.events, eventOf("x-api-key", secret.Reveal()))
	}
	return nil
}

// eventOf returns a call with a credential in a header.
func eventOf(header, credential string) []byte {
	event, _ := json.Marshal(map[string]any{ // texts always encode
		"type":      "REQUEST",
		"methodArn": "arn:aws:execute-api:us-east-1:123456789012:abcdef123/prod/GET/orders",
		"path":      "/orders",
		"headers":   map[string]string{header: credential, "accept": "*/*"},
		"requestContext": map[string]any{
			"requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
			"identity":  map[string]any{"sourceIp": "192.0.2.1"},
		},
	})
	return event
}

// warmUp is how many calls are not counted.
const warmUp = 200

// trips makes calls one by one: a check, the same event echoed, and a PING, in turns.
func (b *bench) trips(ctx context.Context) ([]figures.Figure, error) {
	echoAPI, err := runtimeapi.New()
	if err != nil {
		return nil, err
	}
	defer echoAPI.Close()
	var processes []*exec.Cmd
	defer func() {
		for _, p := range processes {
			runtimeapi.Stop(p)
		}
	}()
	for api, f := range map[*runtimeapi.API]runtimeapi.Function{b.api: b.ours(), echoAPI: b.bare()} {
		p, err := api.Start(ctx, f)
		if err != nil {
			return nil, err
		}
		processes = append(processes, p)
	}
	var checks, echoes, pings []time.Duration
	for i := range b.calls + warmUp {
		event := b.events[i%keys]
		check, err := b.allowed(event)
		if err != nil {
			return nil, err
		}
		echo, _, err := echoAPI.Invoke(event)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if err := b.client.Do(ctx, b.client.B().Ping().Build()).Error(); err != nil {
			return nil, fmt.Errorf("ping: %w", err)
		}
		if ping := time.Since(began); i >= warmUp {
			checks, echoes, pings = append(checks, check), append(echoes, echo), append(pings, ping)
		}
	}
	check, echo, ping := figures.Quantile(checks, 0.5), figures.Quantile(echoes, 0.5),
		figures.Quantile(pings, 0.5)
	return []figures.Figure{
		figures.Of("check.p50_us", micros(check), "µs"),
		figures.Of("check.p99_us", micros(figures.Quantile(checks, 0.99)), "µs"),
		figures.Of("check.ping_p50_us", micros(ping), "µs"),
		figures.Of("check.p50_vs_ping", float64(check)/float64(ping), "ratio"),
		figures.Of("check.echo_p50_us", micros(echo), "µs"),
		figures.Of("check.p50_over_echo_vs_ping", float64(check-echo)/float64(ping), "ratio"),
	}, nil
}

// allowed makes a check, and fails if it is denied: figures are of allowed checks.
func (b *bench) allowed(event []byte) (time.Duration, error) {
	took, answer, err := b.api.Invoke(event)
	return took, mustAllow(answer, err)
}

func (b *bench) ours() runtimeapi.Function {
	return runtimeapi.Function{Name: "check", Command: []string{b.check}, Env: b.env}
}

// bare returns the function that does nothing.
func (b *bench) bare() runtimeapi.Function {
	return runtimeapi.Function{Name: "echo", Command: []string{b.echo}}
}

func mustAllow(answer []byte, err error) error {
	if err == nil && !bytes.Contains(answer, []byte(`"Allow"`)) {
		err = fmt.Errorf("%w: %.300s", runtimeapi.ErrAnswer, answer)
	}
	return err
}

// coldStarts starts both functions in turns.
func (b *bench) coldStarts(ctx context.Context) ([]figures.Figure, error) {
	var checks, echoes []time.Duration
	for i := range b.starts {
		event := b.events[i%keys]
		check, answer, err := runtimeapi.ColdStart(ctx, b.ours(), event)
		if err := mustAllow(answer, err); err != nil {
			return nil, fmt.Errorf("cold start of check: %w", err)
		}
		echo, _, err := runtimeapi.ColdStart(ctx, b.bare(), event)
		if err != nil {
			return nil, fmt.Errorf("cold start of echo: %w", err)
		}
		checks, echoes = append(checks, check), append(echoes, echo)
	}
	check, echo := figures.Quantile(checks, 0.5), figures.Quantile(echoes, 0.5)
	return []figures.Figure{
		figures.Of("check.coldstart_ms", millis(check), "ms"),
		figures.Of("check.coldstart_echo_ms", millis(echo), "ms"),
		figures.Of("check.coldstart_over_echo_ms", millis(check-echo), "ms"),
	}, nil
}

func (b *bench) sizes() ([]figures.Figure, error) {
	var measured []figures.Figure
	for name, path := range map[string]string{"check.binary_mib": b.check, "check.zip_mib": b.zip} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimPrefix(name, "check."), err)
		}
		measured = append(measured, figures.Of(name, float64(info.Size())/(1<<20), "MiB"))
	}
	return measured, nil
}
