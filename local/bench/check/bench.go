//go:build unix

package check

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/keys"
	"tidegate/local/bench/runtimeapi"
	server "tidegate/local/valkey"
)

const pepper = "a pepper that only this benchmark uses"

// bench is a Valkey with a key that may call, and the functions that are measured.
type bench struct {
	options
	url     string
	client  valkey.Client // as the function has one
	keys    *keys.Store
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
	var all []figures.Figure
	for _, measure := range []func(context.Context) ([]figures.Figure, error){
		b.trips, b.afterAnswers, b.coldStarts, b.compared, b.serverTime,
		b.sharedLimit, // after the others: it changes the policies
		b.sizes,
	} {
		measured, err := measure(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, measured...)
	}
	return all, nil
}

// callers is so many keys that none comes near its limits.
const callers = 400

// prepare makes keys of a plan with two limits.
func (b *bench) prepare(ctx context.Context) error {
	b.keys = keys.Open(b.client, pepper, "bench")
	if err := b.keys.Edit(ctx, func(set *policy.Set) {
		limits := []limiter.Limit{{Requests: 100, Window: 10 * time.Second},
			{Requests: 1000, Window: 10 * time.Minute}}
		set.Plans, set.TokenPlan = []policy.Plan{{Name: "pro", Limits: limits}}, "pro"
	}); err != nil {
		return err
	}
	made, err := b.keys.Make(ctx, "pro", "test", callers)
	for _, k := range made {
		b.secrets = append(b.secrets, k.Secret.Reveal())
		b.events = append(b.events, eventOf("x-api-key", k.Secret.Reveal()))
	}
	return err
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
	ours, err := runtimeapi.Start(ctx, b.ours())
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	bare, err := runtimeapi.Start(ctx, b.bare())
	if err != nil {
		return nil, err
	}
	defer bare.Close()
	var checks, echoes, pings []time.Duration
	for i := range b.calls + warmUp {
		event := b.events[i%callers]
		check, err := allowed(ours, event)
		if err != nil {
			return nil, err
		}
		echo, _, err := bare.Invoke(event)
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
		figures.Of("check.p50_us", figures.Micros(check), "µs"),
		figures.Of("check.p99_us", figures.Micros(figures.Quantile(checks, 0.99)), "µs"),
		figures.Of("check.ping_p50_us", figures.Micros(ping), "µs"),
		figures.Of("check.p50_vs_ping", float64(check)/float64(ping), "ratio"),
		figures.Of("check.echo_p50_us", figures.Micros(echo), "µs"),
		figures.Of("check.p50_over_echo_vs_ping", float64(check-echo)/float64(ping), "ratio"),
	}, nil
}

// allowed makes a check, and fails if it is denied: figures are of allowed checks.
func allowed(function *runtimeapi.Environment, event []byte) (time.Duration, error) {
	took, answer, err := function.Invoke(event)
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
		event := b.events[i%callers]
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
		figures.Of("check.coldstart_ms", figures.Millis(check), "ms"),
		figures.Of("check.coldstart_echo_ms", figures.Millis(echo), "ms"),
		figures.Of("check.coldstart_over_echo_ms", figures.Millis(check-echo), "ms"),
	}, nil
}

func (b *bench) sizes(context.Context) ([]figures.Figure, error) {
	var measured []figures.Figure
	for name, path := range map[string]string{"check.binary_mib": b.check, "check.zip_mib": b.zip} {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimPrefix(name, "check."), err)
		}
		measured = append(measured, figures.Of(name, float64(info.Size())/(1<<20), "MiB"))
	}
	return measured, nil
}
