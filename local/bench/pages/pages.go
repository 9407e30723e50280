//go:build unix

// Package pages measures the dashboard with a million keys. For each page it measures the
// server's time, the commands and round trips to Valkey, and the bytes that a browser
// loads. It starts its own valkey-server and runs the dashboard in this process.
package pages

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"tidegate/internal/store"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/harness"
)

// options are the flags.
type options struct {
	keys, active int
	rounds       int // visits to each page
	starts       int // cold starts
	output       string
	admin        string // built function
	journal      string // address; empty for none
	bounds       figures.Bounds
}

func readOptions(args []string, errOut io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("pages", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.IntVar(&o.keys, "keys", 1_000_000, "number of API keys")
	f.StringVar(&o.admin, "admin", "", "`path` of the built admin function, to measure cold starts")
	f.StringVar(&o.journal, "journal", "",
		"`address` of an empty journal, as JOURNAL takes it: also measure cold starts with it")
	f.StringVar(&o.output, "o", "", "`file` to add the figures to")
	short := f.Bool("short", false, "quick run with a hundredth of the keys; do not quote its figures")
	err := f.Parse(args)
	o.starts, o.rounds = 100, 25
	o.bounds = bounds
	if *short {
		o.bounds = nil // its figures are too rough
		o.keys, o.rounds, o.starts = o.keys/100, 5, 10
	}
	o.active = o.keys / 10
	return o, err
}

// Run runs the benchmark with the flags in args.
func Run(ctx context.Context, args []string, out, errOut io.Writer) error {
	o, err := readOptions(args, errOut)
	if err != nil {
		return err
	}
	server, err := harness.Start(ctx, "bench",
		store.Options{Dial: time.Minute, Write: time.Minute, Pooled: true})
	if err != nil {
		return err
	}
	defer server.Close()
	s := newSeed(server, o)
	if err := s.write(ctx); err != nil {
		return err
	}
	b, err := newBrowser(ctx, server.Client)
	if err != nil {
		return err
	}
	measured, err := b.measure(ctx, s)
	if err != nil {
		return err
	}
	starts, err := coldStarts(ctx, o, server)
	if err != nil {
		return err
	}
	return figures.Report(out, fmt.Sprintf("The dashboard, %d keys, %d active", o.keys, o.active),
		append(measured, starts...), o.bounds, o.output, "admin.")
}

var bounds = figures.Bounds{
	"admin.first_load_gzip_bytes": figures.AtMost(65_000),
	"admin.live_refresh_bytes":    figures.AtMost(20_000),
}
