//go:build unix

// Package check measures the built check function as Lambda runs it: through the Runtime
// API, with one call in flight, in turns with other authorizers. It also measures the
// server's processor time for a check and for its usage records.
package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/harness"
)

// options are the flags.
type options struct {
	check, output            string
	node, peer               string // the authorizers of local/bench/peers: executable bundle, Go program
	calls, starts, peerCalls int
}

// Run runs the benchmark with the flags in args.
func Run(ctx context.Context, args []string, out, errOut io.Writer) error {
	var o options
	f := flag.NewFlagSet("check", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.StringVar(&o.check, "check", "", "`path` of the built check function")
	f.StringVar(&o.node, "node", "", "`path` of the executable bundle of the authorizer in Node.js")
	f.StringVar(&o.peer, "go", "", "`path` of the built authorizer in Go")
	f.StringVar(&o.output, "o", "", "`file` to add the figures to")
	short := f.Bool("short", false, "quick run with fewer calls; do not quote its figures")
	if err := f.Parse(args); err != nil {
		return err
	}
	o.calls, o.starts, o.peerCalls = 20_000, 100, 10_000
	limits := bounds
	if *short {
		limits = nil // its figures are too rough
		o.calls, o.starts, o.peerCalls = 2_000, 13, 1_000
	}
	measured, err := measure(ctx, o)
	if err != nil {
		return err
	}
	return figures.Report(out, "The check function", measured, limits, o.output, "check.")
}

var bounds = figures.Bounds{
	"check.coldstart_vs_node":     figures.AtLeast(8),
	"check.p50_vs_node":           figures.AtLeast(0.9),
	"check.rss_vs_node":           figures.AtLeast(5),
	"check.server_vs_evalsha":     figures.AtMost(2.5),
	"check.server_two_vs_evalsha": figures.AtMost(3),
	"check.recorded_vs_evalsha":   figures.AtMost(1.7),
}

// bench has a Valkey server with API keys, and the functions to measure. Its client is
// configured like the function's.
type bench struct {
	options
	*harness.Server
	env     map[string]string // of the check function
	secrets []string
	events  [][]byte // one for each key
}

// callers is the number of keys: so many that no key comes near its limits.
const callers = 400

// patience is the time-out of everything that asks Valkey, so that a busy machine makes
// answers slow, and not invalid.
const patience = 5 * time.Second

// open starts a Valkey server and creates the keys, of a plan with two limits.
func open(ctx context.Context, o options) (*bench, error) {
	s, err := harness.Start(ctx, "bench", store.Options{Pooled: true, Dial: patience, Write: patience})
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, Server: s, env: map[string]string{"VALKEY_URL": s.URL,
		"KEY_PEPPER": harness.Pepper, "VALKEY_TIMEOUT": patience.String()}}
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
	compared, err := b.compareAll(ctx)
	if err != nil {
		return nil, err
	}
	spent, err := b.serverTime(ctx)
	return append(compared, spent...), err
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

var errDenied = errors.New("call denied: only allowed calls are measured")

func allowed(answer []byte) error {
	if !bytes.Contains(answer, []byte(`"Allow"`)) {
		return errDenied
	}
	return nil
}
