//go:build unix

// Command local runs Tidegate on this machine: the built functions behind emulators of
// API Gateway, with a Valkey and demo keys. ./scripts/run builds it and passes its flags
// on. If the first argument names a part, it runs one container of compose.yaml.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"tidegate/internal/journal"
	"tidegate/local/gateway"
	"tidegate/local/lambda"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// run returns the exit status: 0 after a signal, 1 after an error, 2 for bad flags.
func run(ctx context.Context, args []string, getenv func(string) string, out, errOut io.Writer) int {
	if part, found := partOf(args); found {
		return runPart(ctx, part, args[1:], stdio{getenv, os.Environ, out, errOut})
	}
	o, err := parseOptions(args)
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
	functions, stop, err := startFunctions(o, registry, login, url(listeners.rest)+"/hello", getenv, errOut)
	if err != nil {
		return err
	}
	defer stop()
	servers, err := startServers(listeners, functions, o.corsOrigin, log)
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

// options are the flags.
type options struct {
	rest, http, admin string
	valkey            string // "" is embedded, "auto" an installed server, else a URL
	journal           string // an address for journal.OpenStore; empty for none
	readyFile         string
	bin               string
	httpDeny          string // HTTP_API_DENY
	corsOrigin        string // an origin, gateway.AnyOrigin or gateway.NoOrigin
	environments      int
	noFreeze          bool
	verbose           bool
}

const denyInContext = "context"

const maxEnvironments = 1000 // Lambda's default concurrency of an account

// flags returns the flags. The head of scripts/run describes them.
func (o *options) flags() *flag.FlagSet {
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.SetOutput(io.Discard) // run prints errors itself
	f.StringVar(&o.rest, "rest", "127.0.0.1:8080", "")
	f.StringVar(&o.http, "http", "127.0.0.1:8081", "")
	f.StringVar(&o.admin, "admin", "127.0.0.1:8082", "")
	f.StringVar(&o.httpDeny, "http-deny", "deny", "")
	f.StringVar(&o.corsOrigin, "cors-origin", gateway.AnyOrigin, "")
	f.StringVar(&o.valkey, "valkey", "", "")
	f.StringVar(&o.journal, "journal", "", "")
	f.StringVar(&o.readyFile, "ready-file", "", "")
	f.StringVar(&o.bin, "bin", lambda.BinFolder(), "")
	f.IntVar(&o.environments, "environments", 50, "")
	f.BoolVar(&o.noFreeze, "no-freeze", false, "")
	f.BoolVar(&o.verbose, "v", false, "")
	return f
}

func parseOptions(args []string) (options, error) {
	var o options
	f := o.flags()
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("argument %q is not a flag", f.Arg(0))
	}
	return o, o.validate()
}

func (o *options) validate() error {
	for _, a := range o.addresses() {
		if err := validAddress(a.address); err != nil {
			return fmt.Errorf("-%s %s: %w", a.flag, a.address, err)
		}
	}
	if o.valkey != "" && o.valkey != "auto" && !strings.Contains(o.valkey, "://") {
		return fmt.Errorf("-valkey: write auto or a URL such as valkey://127.0.0.1:6379")
	}
	if o.httpDeny != "deny" && o.httpDeny != denyInContext {
		return fmt.Errorf("-http-deny %s: must be deny or context", o.httpDeny)
	}
	if !validOrigin.MatchString(o.corsOrigin) {
		return fmt.Errorf("-cors-origin %s: must be an origin such as http://127.0.0.1:3000, * or none",
			o.corsOrigin)
	}
	if o.environments < 1 || o.environments > maxEnvironments {
		return fmt.Errorf("-environments %d: must be 1 to %d", o.environments, maxEnvironments)
	}
	for _, function := range []string{"check", "admin"} {
		if _, err := os.Stat(o.bootstrap(function)); err != nil {
			return fmt.Errorf("-bin %s: %s is missing: ./scripts/run builds it", o.bin, o.bootstrap(function))
		}
	}
	if err := journal.CheckAddress(o.journal); err != nil {
		return fmt.Errorf("-journal %s: %w", o.journal, err)
	}
	return o.validateReadyFile()
}

func (o *options) validateReadyFile() error {
	if o.readyFile == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(o.readyFile)); err != nil || !info.IsDir() {
		return fmt.Errorf("-ready-file %s: its folder does not exist", o.readyFile)
	}
	if info, err := os.Stat(o.readyFile); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("-ready-file %s: it exists and is not a regular file", o.readyFile)
	}
	return nil
}

// validOrigin matches the values of the stack's flag corsOrigin.
var validOrigin = regexp.MustCompile(`^(\*|none|https?://[a-z0-9.-]+(:\d{1,5})?)$`)

type flagAddress struct{ flag, address string }

// addresses returns the addresses to listen on, in the order of listeners.all.
func (o *options) addresses() [3]flagAddress {
	return [3]flagAddress{{"rest", o.rest}, {"http", o.http}, {"admin", o.admin}}
}

func validAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("write host:port, such as 127.0.0.1:0")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("port must be 0 to 65535")
	}
	return nil
}

func (o *options) bootstrap(function string) string {
	return filepath.Join(o.bin, function, "bootstrap")
}
