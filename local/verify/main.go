// Command verify calls a deployment of Tidegate and reports where AWS, or the account's
// configuration, differs from this repository's expectations. docs/verify.md lists them:
// its tables have the words of the rows. ./scripts/verify builds it and passes its flags
// on.
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
)

// Exit statuses.
const (
	allAsExpected = iota
	somethingDiffers
	badUsage
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// run returns the exit status. The table goes to out, the plan and the progress to
// errOut.
func run(ctx context.Context, args []string, getenv func(string) string, out, errOut io.Writer) int {
	o, err := parseOptions(args, getenv)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(out, usage())
		return allAsExpected
	}
	aws := findAWS()
	if err == nil {
		err = o.complete(ctx, aws)
	}
	if err != nil {
		_, _ = fmt.Fprintf(errOut, "verify: %v (-h shows all flags)\n", err)
		return badUsage
	}
	return verify(ctx, newSession(o, aws), out, errOut)
}

// verify makes the calls of all probes and writes the report.
func verify(ctx context.Context, s *session, out, errOut io.Writer) int {
	defer s.close()
	out, errOut = s.redacted(out), s.redacted(errOut)
	s.announce(errOut)
	r := s.collect(ctx, errOut)
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(errOut, "verify: interrupted")
		return somethingDiffers
	}
	r.print(out)
	if err := r.write(s.options, s.secrets()); err != nil {
		_, _ = fmt.Fprintf(errOut, "verify: %v\n", err)
		return somethingDiffers
	}
	if r.count(differs) > 0 {
		return somethingDiffers
	}
	return allAsExpected
}
