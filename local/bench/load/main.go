//go:build unix

// Command load calls a gateway at a rate that does not depend on its answers, measures
// latency from when each call was due, and checks by the answers that no rolling window
// admitted more than its limit. ./scripts/load builds what it needs and passes its flags
// on.
//
// The scheduler is our own and the histogram HdrHistogram's. The library vegeta does not
// fit: it measures from when a worker sends a call, so its bound of workers hides a
// stalled target; it takes no clock from a test; and its pacers have no bursts at given
// instants.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	width, _, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil {
		width = 0 // no terminal
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr, width))
}

// run returns the exit status. The width is that of the terminal behind errOut, 0 for
// none. The gateway writes to errOut too, at the same time.
func run(ctx context.Context, args []string, out, errOut io.Writer, width int) int {
	o, err := parseOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(out, usage())
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintf(errOut, "load: %v (-h shows all flags)\n", err)
		return 2
	}
	r, err := measure(ctx, o, errOut, width)
	if err == nil {
		err = r.write(o, out)
	}
	if err != nil {
		_, _ = fmt.Fprintf(errOut, "load: %v\n", err)
		return 1
	}
	if !r.good() {
		return 1
	}
	return 0
}
