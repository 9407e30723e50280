//go:build unix

// Command screenshots takes pictures of the dashboard's pages over sample data, light and
// dark, for the README. The data is the same each time but for the time of day.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	f := flag.NewFlagSet("screenshots", flag.ExitOnError)
	output := f.String("o", "docs/images", "`folder` for the pictures")
	width := f.Int64("width", 1280, "of the page, in pixels")
	_ = f.Parse(os.Args[1:]) // it ends the program instead
	if f.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "screenshots: argument %q is not a flag (-h shows all flags)\n", f.Arg(0))
		os.Exit(2)
	}
	err := run(ctx, *output, *width)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}
