//go:build unix

// Command bench measures the built check function as Lambda runs it, through the Runtime
// API, one call in flight: how long a check takes beside a bare PING of the same client,
// and how long a start takes beside that of a function that does nothing. What is
// compared is measured in turns. Under a limit of all calls it measures callers whom the
// function allowed lately, whose checks take one round trip, and others, whose checks
// take two. It measures what a check and its records cost the server, too.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"tidegate/local/bench/figures"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	check, echo, zip, output string
	node, peer               string // the bundled and the built authorizer of local/bench/peers
	record                   string // the repository, whose page gets the comparison
	calls, starts, peerCalls int
}

func run(ctx context.Context, args []string) error {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
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
	figures.Print(os.Stdout, "The check function", measured, goal)
	if o.output == "" {
		return nil
	}
	return figures.Put(o.output, "check.", measured)
}
