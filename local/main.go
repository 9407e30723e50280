//go:build unix

// Command local runs Tidegate on this machine: the built functions behind emulators of
// API Gateway, with a Valkey and demo keys. ./scripts/run builds it and passes its flags
// on. If the first argument names a part, it runs one container of compose.yaml.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// run returns the exit status: 0 after a signal or -h, 1 after an error, 2 for bad flags.
func run(ctx context.Context, args []string, getenv func(string) string, out, errOut io.Writer) int {
	if part, found := partOf(args); found {
		return runPart(ctx, part, args[1:], stdio{getenv, os.Environ, out, errOut})
	}
	o, err := parseOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(out, usage())
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintf(errOut, "run: %v (-h shows all flags)\n", err)
		return 2
	}
	if err := serve(ctx, o, getenv, out, errOut); err != nil && ctx.Err() == nil {
		_, _ = fmt.Fprintf(errOut, "run: %v\n", err)
		return 1
	}
	return 0
}

// serve starts everything, the most error-prone parts first, and stops it in reverse when
// ctx ends.
func serve(ctx context.Context, o options, getenv func(string) string, out, errOut io.Writer) error {
	listeners, err := listen(o)
	if err != nil {
		return err
	}
	defer listeners.close()
	removeReady(o.readyFile) // a killed run may have left one with old addresses
	registry, err := openRegistry(ctx, o.valkey, o.journal != "", getenv)
	if err != nil {
		return err
	}
	defer registry.close()
	log := slog.New(slog.NewTextHandler(errOut, nil))
	if err := registry.openJournal(ctx, o.journal, log); err != nil {
		return err
	}
	login, err := newLogin(getenv)
	if err != nil {
		return err
	}
	keys, err := seed(ctx, registry.keys)
	if err != nil {
		return err
	}
	functions, err := startFunctions(o, registry, login, getenv, errOut)
	if err != nil {
		return err
	}
	defer functions.close()
	servers, err := startServers(listeners, functions.invokers(), o.corsOrigin, log)
	if err != nil {
		return err
	}
	defer servers.stop()
	ready := newReady(listeners, registry, login, keys)
	if err := ready.write(o.readyFile); err != nil {
		return err
	}
	defer removeReady(o.readyFile)
	ready.banner(out, registry.name)
	return servers.wait(ctx)
}
