//go:build unix

// Command screenshots takes pictures of the dashboard's pages with sample data, in light
// and dark, for the README. Only the times in the data differ between runs.
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
	_ = f.Parse(os.Args[1:]) // exits the program on an error
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
