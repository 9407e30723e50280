//go:build unix

// Command bench runs the benchmark named by its first argument: check, pages or scale.
// scripts/bench builds it and the programs that it measures. limiter, load and peers are
// programs of their own.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"tidegate/local/bench/check"
	"tidegate/local/bench/pages"
	"tidegate/local/bench/scale"
)

// benchmarks has the benchmarks by name. They print figures to out and progress to
// errOut.
var benchmarks = map[string]func(ctx context.Context, args []string, out, errOut io.Writer) error{
	"check": check.Run,
	"pages": pages.Run,
	"scale": scale.Run,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

var errName = errors.New("the first argument must be check, pages or scale")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || benchmarks[args[0]] == nil {
		return errName
	}
	return benchmarks[args[0]](ctx, args[1:], os.Stdout, os.Stderr)
}
