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

// part is the program of one container of compose.yaml.
type part struct {
	name string
	run  func(ctx context.Context, args []string, io stdio) error
}

// stdio is the part of its process that a part may use.
type stdio struct {
	getenv      func(string) string
	environ     func() []string
	out, errOut io.Writer
}

var parts = []part{
	{"secrets", writeSecrets},   // generates the secrets of this composition, once
	{"setup", setUp},            // creates the Valkey cluster and the demo keys
	{"function", serveFunction}, // runs a Lambda function as one environment of a gateway's
	{"gateway", serveGateway},   // runs the API Gateway emulators for such functions
	{"ready", printReady},       // prints addresses and credentials as JSON
	{"health", askHealth},       // requests the health at a URL
	{"toxiproxy", askToxiproxy}, // sends METHOD PATH [JSON] to the toxiproxy of this container
}

// partOf returns the part that the first argument names.
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

// partFlags returns a part's flag set, whose help names the part.
func partFlags(name string, io stdio) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.errOut)
	return f
}
