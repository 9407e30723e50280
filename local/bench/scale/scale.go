//go:build unix

// Package scale measures what decides the size of a deployment: a Valkey server's time
// for a check and for a call of a flood, the effect of more shards, the memory of a key,
// the cost of an edit of a plan that many keys have, and the capacity of a limit on all
// callers. Servers and clients share this machine, so rates depend on both. The server's
// processor time for a check is comparable between machines.
package scale

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"tidegate/local/bench/figures"
)

// options are the flags and the sizes that follow from them.
type options struct {
	output  string
	slice   time.Duration // of each measurement of a rate
	repeats int
	callers int   // in measurements of rates: so many that none comes near its limit
	keys    []int // number of keys at each measurement of memory
	stable  int   // readings of memory, 100 ms apart, that must not differ
}

func parseOptions(args []string, errOut io.Writer) (options, error) {
	o := options{slice: 5 * time.Second, repeats: 5, callers: 10_000,
		keys: []int{10_000, 100_000, 1_000_000}, stable: 25}
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.StringVar(&o.output, "o", "", "`file` to add the figures to")
	short := f.Bool("short", false, "quick run with fewer keys; do not quote its figures")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if *short {
		o.slice, o.repeats, o.callers, o.keys = time.Second/2, 1, 2_000, []int{1_000, 10_000}
	}
	return o, nil
}

// measurement is a named group of figures.
type measurement struct {
	name    string
	measure func(context.Context, options) ([]figures.Figure, error)
}

var measurements = []measurement{
	{"shards", shards}, {"floods", floods}, {"global", globalLimit}, {"memory", memory},
}

// Run runs the benchmark with the flags in args.
func Run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parseOptions(args, progress)
	if err != nil {
		return err
	}
	var all []figures.Figure
	for _, m := range measurements {
		_, _ = fmt.Fprintf(progress, "scale: %s\n", m.name)
		measured, err := m.measure(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		all = append(all, measured...)
	}
	return figures.Report(out, "Scale", all, nil, o.output, "scale.")
}

// figure returns a figure whose name begins with this command's prefix.
func figure(name string, value float64, unit string) figures.Figure {
	return figures.Of("scale."+name, value, unit)
}
