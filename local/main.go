//go:build unix

// Command local is the program tidegate. Its first argument names what it does: run
// Tidegate on this machine, or work on a deployment. The scripts of the commands' names
// build it and pass their arguments on.
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

	"tidegate/local/cli"
	"tidegate/local/gateway"
	"tidegate/local/lambda"
	"tidegate/local/migrate"
	"tidegate/local/restore"
	"tidegate/local/verify"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(execute(ctx, os.Args[1:], stdio{os.Getenv, os.Stdin, os.Stdout, os.Stderr}))
}

// stdio is the part of its process that a command may use.
type stdio struct {
	getenv      func(string) string
	in          io.Reader
	out, errOut io.Writer
}

const about = `Usage: tidegate COMMAND [flags]; tidegate COMMAND -h shows the flags

  run       both gateways, the dashboard, a backend and a Valkey on this machine
  migrate   imports API Gateway's usage plans and keys
  verify    checks a deployment
  restore   makes a Valkey again from the log of changes
  health    succeeds if a URL answers 200, for images without a shell
`

// execute runs the command that the first argument names, and returns its exit status.
func execute(ctx context.Context, args []string, io stdio) int {
	if len(args) == 0 {
		args = []string{""}
	}
	switch args[0] {
	case "run":
		return run(ctx, args[1:], io.getenv, io.out, io.errOut)
	case "migrate":
		return migrate.Run(ctx, args[1:], io.getenv, io.in, io.out, io.errOut)
	case "verify":
		return verify.Run(ctx, args[1:], io.getenv, io.out, io.errOut)
	case "restore":
		return restore.Run(ctx, args[1:], io.getenv, io.out, io.errOut)
	case "health":
		return health(ctx, args[1:], io.errOut)
	}
	_, _ = fmt.Fprint(io.errOut, about)
	return 2
}

const aboutRun = `Runs Tidegate on this machine: both gateways, the dashboard, a backend and an embedded
Valkey, with demo keys. ./scripts/run builds what is missing or stale first. Needs Go, but
no Node.js, Valkey, browser or Docker. Ctrl-C stops everything.

Variables: ADMIN_USER and ADMIN_PASSWORD are the dashboard's login, admin and a new
password each time. KEY_PEPPER is the pepper of the keys in the folder of -data. Others of
docs/configuration.md are passed to the functions.
`

// run returns the exit status: 0 after a signal, 1 after an error, 2 for bad flags.
func run(ctx context.Context, args []string, getenv func(string) string, out, errOut io.Writer) int {
	o, err := parseOptions(args, out)
	if err != nil {
		return cli.Refuse("run", err, errOut)
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
	registry, err := openRegistry(ctx, o.valkey, o.data, getenv)
	if err != nil {
		return err
	}
	defer registry.close()
	log := slog.New(slog.NewTextHandler(errOut, nil))
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
	if err := minute(ctx, functions.admin); err != nil {
		return err
	}
	defer everyMinute(ctx, functions.admin, log)()
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
	invoke            string
	valkey            string // "" is embedded, "auto" an installed server, else a URL
	data              string // folder of the log of changes; empty for a temporary one
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

func (o *options) flags() *flag.FlagSet {
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.StringVar(&o.rest, "rest", "127.0.0.1:8080", "`address` of the REST API; port 0 picks a free port")
	f.StringVar(&o.http, "http", "127.0.0.1:8081", "`address` of the HTTP API")
	f.StringVar(&o.admin, "admin", "127.0.0.1:8082", "`address` of the dashboard")
	f.StringVar(&o.invoke, "invoke", "",
		"`address` of Lambda's Invoke API, for direct calls; by default\n"+
			"127.0.0.1:8083, or a free port if -rest asks for one")
	f.StringVar(&o.httpDeny, "http-deny", "deny",
		"what the HTTP API answers over a limit, a `kind`: deny (403), or\n"+
			"context: its backend runs the middleware, which answers 429")
	f.StringVar(&o.corsOrigin, "cors-origin", gateway.AnyOrigin,
		"`origin` whose scripts may read responses in a browser; none, or\n"+
			"all: *")
	f.StringVar(&o.valkey, "valkey", "",
		"`URL` of the Valkey to use: valkey://host:6379, or auto to start the\n"+
			"valkey-server found on PATH; by default one runs in process.\n"+
			"A URL needs -data, since a Valkey belongs to one log")
	f.StringVar(&o.data, "data", "",
		"keep the log of changes, with all keys and policies, in this\n"+
			"`folder`; by default in a temporary one, which the end removes")
	f.StringVar(&o.readyFile, "ready-file", "",
		"a JSON `file` with addresses and credentials, written when\n"+
			"everything runs, removed at the end")
	f.StringVar(&o.bin, "bin", lambda.BinFolder(), "`folder` with the built functions")
	f.IntVar(&o.environments, "environments", 50,
		"maximum `number` of processes per function; each handles one call\n"+
			"at a time, and a call that would need more gets 500")
	f.BoolVar(&o.noFreeze, "no-freeze", false, "let functions run between calls; Lambda freezes them")
	f.BoolVar(&o.verbose, "v", false, "show the functions' whole log, not only warnings and errors")
	return f
}

func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	if err := cli.Parse(o.flags(), args, aboutRun, out); err != nil {
		return o, err
	}
	if o.invoke == "" {
		o.invoke = "127.0.0.1:8083"
		if strings.HasSuffix(o.rest, ":0") {
			o.invoke = "127.0.0.1:0"
		}
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
	if strings.Contains(o.valkey, "://") && o.data == "" {
		return fmt.Errorf("-valkey: set -data too: a Valkey belongs to one log of changes, which must stay")
	}
	if strings.Contains(o.data, "://") {
		return fmt.Errorf("-data %s: must be the path of a folder", o.data)
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
func (o *options) addresses() [4]flagAddress {
	return [4]flagAddress{{"rest", o.rest}, {"http", o.http}, {"admin", o.admin}, {"invoke", o.invoke}}
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
