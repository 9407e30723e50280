//go:build unix

// Command scale measures what depends on how much there is. "scale pages": the dashboard
// with many keys. "scale sizes": what decides the size of a deployment, namely a server's
// time for a check and for a call of a flood, more shards, the memory of a key, an edit of
// a plan that many keys have, and a limit that all callers share. Servers and clients
// share this machine, so rates depend on both; the server's processor time does not.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"tidegate/local/bench"
)

// options are the flags and the sizes that follow from them.
type options struct {
	keys    int
	admin   string        // built function
	slice   time.Duration // of each measurement of a rate
	repeats int
	callers int // in measurements of rates: so many that none comes near its limit
	rounds  int // visits to each page
	starts  int // cold starts
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := options{slice: 5 * time.Second, repeats: 5, callers: 10_000, rounds: 25, starts: 100}
	output := flag.String("o", "bench.json", "`file` whose figures are replaced")
	short := flag.Bool("short", false, "quick run with a hundredth of the keys; do not quote its figures")
	flag.IntVar(&o.keys, "keys", 1_000_000, "number of API keys")
	flag.StringVar(&o.admin, "admin", "", "`path` of the built admin function")
	flag.Parse()
	if *short {
		o = options{o.keys / 100, o.admin, time.Second / 4, 1, 1_000, 3, 3}
	}
	measure := map[string]func(context.Context, options) ([]bench.Figure, error){
		"pages": pages, "sizes": sizes}[flag.Arg(0)]
	if measure == nil || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "scale: the argument after the flags must be pages or sizes")
		os.Exit(2)
	}
	figures, err := measure(ctx, o)
	if err == nil {
		err = bench.Report(os.Stdout, *output, figures)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}
