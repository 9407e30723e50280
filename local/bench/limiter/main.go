// Command limiter compares Tidegate's limiter with others on one Valkey server in one
// run: the rate of a saturated server, the time of one call in flight, the server's CPU
// time, the bytes of a key and the client's allocations. scripts/bench builds and runs
// it.
//
// Calls with one in flight use the limiter's own library. For the saturated rate, the
// bytes that the library sends are recorded. A simple client sends them again, with other
// keys, over a few connections. Limiters take turns in short slices, so that a
// disturbance of the machine affects all of them. Each figure is the median over the
// rounds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"tidegate/local/bench/figures"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil &&
		!errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// options are the flags and the sizes that follow from them.
type options struct {
	keys    int // subjects of a limiter whose state is small
	slice   int // saturated checks in a turn
	pairs   int // calls one by one in a turn, each followed by a PING
	repeats int // turns of each limiter
	// lead is the time from the start until new windows begin. It must be long enough to
	// fill the previous window of the limiters that count it.
	lead   time.Duration
	only   *regexp.Regexp // names of limiters; the references are always measured
	server []string       // the command that starts a server
	output string
	short  bool // the figures are too rough for bounds
}

func parse(arguments []string, errors io.Writer) (options, error) {
	// The logs begin half full: after 35 repeats some are nearly full.
	o := options{keys: 100_000, slice: 20_000, pairs: 200, repeats: 15, lead: 10 * time.Second}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errors)
	flags.BoolVar(&o.short, "short", false, "quick run with fewer keys; do not quote its figures")
	only := flags.String("only", "",
		"measure only limiters whose name matches `regexp`, and the limiters that ratios refer to")
	flags.StringVar(&o.output, "o", "bench.json", "`file` for the figures")
	server := flags.String("server", "valkey-server",
		"`command` that starts the server, to which settings are added")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %s", flags.Arg(0))
	}
	if o.short {
		o.keys, o.slice, o.pairs, o.repeats, o.lead = 10_000, 5_000, 100, 3, 3*time.Second
	}
	o.server = strings.Fields(*server)
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	return o, nil
}

func run(ctx context.Context, arguments []string, out, progress io.Writer) error {
	o, err := parse(arguments, progress)
	if err != nil {
		return err
	}
	m, err := measure(ctx, o, progress)
	if err != nil {
		return err
	}
	r := summarize(m)
	r.print(out)
	if err := figures.Write(o.output, r.figures); err != nil || o.short {
		return err
	}
	return bounds.Check(r.figures)
}
