//go:build unix

// Command admin measures the dashboard over a million keys. For each page it measures the
// server's time, the commands and round trips to Valkey, and the bytes that a browser
// loads. It starts its own valkey-server and runs the dashboard in this process. With
// -tasks it does an operator's tasks in Chromium instead, and counts clicks and seconds.
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
