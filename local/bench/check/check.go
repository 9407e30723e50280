//go:build unix

// Package check measures the built check function as Lambda runs it: through the Runtime
// API, with one call in flight. It compares a check with a bare PING of the same client,
// and a cold start with that of a function that does nothing, in alternating turns. It
// also compares the function with other authorizers, and measures the server's processor
// time for a check and for its usage records.
package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/harness"
	"tidegate/local/bench/runtimeapi"
)

// options are the flags.
type options struct {
	check, echo, zip, output string
	node, peer               string // the authorizers of local/bench/peers: Node.js, bundled; Go, built
	record                   string // folder of the repository, for docs/performance.md; empty for none
	calls, starts, peerCalls int
}

// Run runs the benchmark with the flags in args.
func Run(ctx context.Context, args []string, out, errOut io.Writer) error {
	var o options
	f := flag.NewFlagSet("check", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.StringVar(&o.check, "check", "", "`path` of the built check function")
	f.StringVar(&o.echo, "echo", "", "`path` of the built echo function")
	f.StringVar(&o.zip, "zip", "", "`path` of the check function's zip")
	f.StringVar(&o.node, "node", "", "`path` of the bundled authorizer in Node.js")
	f.StringVar(&o.peer, "go", "", "`path` of the built authorizer in Go")
	f.StringVar(&o.record, "record", "",
		"`folder` of the repository: write the comparison to docs/performance.md")
	f.StringVar(&o.output, "o", "", "`file` to add the figures to")
	short := f.Bool("short", false, "quick run with fewer calls; do not quote its figures")
	if err := f.Parse(args); err != nil {
		return err
	}
	o.calls, o.starts, o.peerCalls = 20_000, 300, 10_000
	if *short {
		o.calls, o.starts, o.peerCalls = 2_000, 40, 1_000
	}
	measured, err := measure(ctx, o)
	if err != nil {
		return err
	}
	return figures.Report(out, "The check function", measured, goals, o.output, "check.")
}

var goals = figures.Goals{
	"check.coldstart_over_echo_ms": {Bound: 0.5},
	"check.binary_mib":             {Bound: 9},
	"check.zip_mib":                {Bound: 4},
	"check.coldstart_vs_node":      {Bound: 30, Minimum: true},
	"check.p50_vs_node":            {Bound: 1.8, Minimum: true},
	"check.rss_vs_node":            {Bound: 5, Minimum: true},
	"check.server_vs_evalsha":      {Bound: 2.2},
	"check.server_two_vs_evalsha":  {Bound: 2.8},
	"check.recorded_vs_evalsha":    {Bound: 0.4},
}

// bench has a Valkey server with API keys, and the functions to measure. Its client is
// configured like the function's.
type bench struct {
	options
	*harness.Server
	env     []string // of the check function
	secrets []string
	events  [][]byte // one for each key
}

// callers is the number of keys: so many that no key comes near its limits.
const callers = 400

// open starts a Valkey server and creates the keys, of a plan with two limits.
func open(ctx context.Context, o options) (*bench, error) {
	s, err := harness.Start(ctx, "bench", store.Options{Pooled: true})
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, Server: s, env: []string{"VALKEY_URL=" + s.URL, "KEY_PEPPER=" + harness.Pepper}}
	if err := b.Edit(ctx, func(set *policy.Set) {
		limits := []limiter.Limit{{Requests: 100, Window: 10 * time.Second},
			{Requests: 1000, Window: 10 * time.Minute}}
		set.Plans, set.TokenPlan = []policy.Plan{{Name: "pro", Limits: limits}}, "pro"
	}); err != nil {
		s.Close()
		return nil, err
	}
	keys, err := b.Keys(ctx, "pro", "test", callers)
	if err != nil {
		s.Close()
		return nil, err
	}
	for _, k := range keys {
		b.secrets = append(b.secrets, k.Secret.Reveal())
		b.events = append(b.events, eventOf("x-api-key", k.Secret.Reveal()))
	}
	return b, nil
}

func measure(ctx context.Context, o options) ([]figures.Figure, error) {
	b, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	var all []figures.Figure
	for _, measure := range []func(context.Context) ([]figures.Figure, error){
		b.roundTrips, b.afterAnswers, b.coldStarts, b.compareAll, b.serverTime,
		b.globalLimit, // after the others, since it changes the policies
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

// eventOf returns the event of a call with a credential in a header.
func eventOf(header, credential string) []byte {
	event, _ := json.Marshal(map[string]any{ // strings always encode
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

// checkFunction returns the built check function. Only an allowed call is a valid answer.
func (b *bench) checkFunction() runtimeapi.Function {
	return runtimeapi.Function{Name: "check", Command: []string{b.check}, Env: b.env, Valid: allowed}
}

// echoFunction returns the built echo function, which does nothing.
func (b *bench) echoFunction() runtimeapi.Function {
	return runtimeapi.Function{Name: "echo", Command: []string{b.echo}}
}

var errDenied = errors.New("call denied: only allowed calls are measured")

func allowed(answer []byte) error {
	if !bytes.Contains(answer, []byte(`"Allow"`)) {
		return errDenied
	}
	return nil
}

func (b *bench) sizes(context.Context) ([]figures.Figure, error) {
	var measured []figures.Figure
	for name, path := range map[string]string{"check.binary_mib": b.check, "check.zip_mib": b.zip} {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimPrefix(name, "check."), err)
		}
		measured = append(measured, figures.Of(name, float64(info.Size())/mib, "MiB"))
	}
	return measured, nil
}
