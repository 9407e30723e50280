//go:build unix

// Command admin measures the dashboard over a million keys: how long the server works on
// each page, how many commands and round trips to the store that takes, and how much
// browsers have to load. The server is a valkey-server of its own, the dashboard runs in
// this process.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
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
