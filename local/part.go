//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
)

// part is what one container of compose.yaml runs.
type part struct {
	name string
	run  func(ctx context.Context, args []string, io stdio) error
}

// stdio is what a part may use of its process.
type stdio struct {
	getenv      func(string) string
	environ     func() []string
	out, errOut io.Writer
}

var parts = []part{
	{"secrets", writeSecrets},   // makes the secrets of this composition, once
	{"setup", setUp},            // makes the Valkey cluster and the demo keys
	{"function", serveFunction}, // runs a Lambda function as one environment of a gateway's
	{"gateway", serveGateway},   // runs the API Gateway emulators before such functions
	{"ready", printReady},       // prints addresses and credentials as JSON
	{"health", askHealth},       // asks a URL whether all is well
	{"toxiproxy", askToxiproxy}, // sends METHOD PATH [JSON] to the toxiproxy of this container
}

// partOf finds the part that the first argument names.
func partOf(args []string) (part, bool) {
	if len(args) == 0 {
		return part{}, false
	}
	i := slices.IndexFunc(parts, func(p part) bool { return p.name == args[0] })
	if i < 0 {
		return part{}, false
	}
	return parts[i], true
}

// runPart returns the exit status, as run does.
func runPart(ctx context.Context, p part, args []string, io stdio) int {
	err := p.run(ctx, args, io)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil && ctx.Err() == nil:
		_, _ = fmt.Fprintf(io.errOut, "%s: %v\n", p.name, err)
		return 1
	}
	return 0
}

// partFlags are those of a part. Their help names the part.
func partFlags(name string, io stdio) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.errOut)
	return f
}
