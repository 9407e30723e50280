//go:build unix

// Package check measures the built check function as Lambda runs it, through the Runtime
// API, one call in flight. It compares a check with a bare PING of the same client, and a
// cold start with that of a function that does nothing, in alternating turns. Under a
// limit of all calls it measures callers that the function allowed in the last seconds,
// whose checks take one round trip, and others, whose checks take two. It also measures
// the server's processor time for a check and its usage records.
package check

import (
	"context"
	"flag"
	"io"

	"tidegate/local/bench/figures"
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
