//go:build unix

// Package check measures the built check function as Lambda runs it, through the Runtime
// API, one call in flight. It compares a check with a bare PING of the same client, and a
// cold start with that of a function that does nothing, in alternating turns. Under a
// limit of all calls it measures callers that the function allowed in the last seconds,
// whose checks take one round trip, and others, whose checks take two. It also measures
// the server's processor time for a check and its usage records.
package check

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
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

// options are the flags.
type options struct {
	check, echo, zip, output string
	node, peer               string // the bundled and the built authorizer of local/bench/peers
	record                   string // the repository, whose page gets the comparison
	calls, starts, peerCalls int
}

// Run measures with the flags in args.
func Run(ctx context.Context, args []string, out, errOut io.Writer) error {
	var o options
	f := flag.NewFlagSet("check", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.StringVar(&o.check, "check", "", "the built check `function`")
	f.StringVar(&o.echo, "echo", "", "the built echo `function`")
	f.StringVar(&o.zip, "zip", "", "the packed check `function`")
	f.StringVar(&o.node, "node", "", "the bundled `file` of the authorizer in Node.js")
	f.StringVar(&o.peer, "go", "", "the built authorizer in Go: a `function`")
	f.StringVar(&o.record, "record", "", "`folder` of the repository, to write the comparison to its docs")
	f.StringVar(&o.output, "o", "", "`file` to add the figures to")
	short := f.Bool("short", false, "a quick look")
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
	return figures.Report(out, "The check function", measured, goal, o.output, "check.")
}

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
		b.globalLimit, // after the others: it changes the policies
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
