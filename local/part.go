//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"tidegate/local/gateway"
	"tidegate/local/lambda"
	"tidegate/local/remote"
)

// part is the program of one container of compose.yaml.
type part struct {
	name string
	run  func(ctx context.Context, args []string, io stdio) error
}

var parts = []part{
	{"secrets", writeSecrets},   // generates the secrets of this composition, once
	{"setup", setUp},            // creates the Valkey cluster and the demo keys
	{"function", serveFunction}, // runs a Lambda function as one environment of a gateway's
	{"gateway", serveGateway},   // runs the API Gateway emulators for such functions
	{"ready", printReady},       // prints addresses and credentials as JSON
	{"health", checkHealth},     // requests the health at a URL
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

// drainTimeout is the time for a running invocation when the container stops.
const drainTimeout = 8 * time.Second

// functionMemory is the containers' memory in MB, as in a deployment.
const functionMemory = 512

// serveFunction runs one environment of a function in its own container.
func serveFunction(ctx context.Context, args []string, io stdio) error {
	c := lambda.Config{Concurrency: 1, Warm: 1, Memory: functionMemory, Log: io.out}
	var listen, envFile string
	f := partFlags("function", io)
	f.StringVar(&c.Name, "name", "check", "`name` of the function")
	f.StringVar(&c.Binary, "binary", "/bootstrap", "`path` of the built function")
	f.StringVar(&listen, "listen", ":9000", "`address` to listen on for invocations")
	f.StringVar(&envFile, "env-file", "", "`path` of a file with more variables for the function")
	f.DurationVar(&c.Timeout, "timeout", checkTimeout, "`time` that one invocation may take")
	f.BoolVar(&c.NoFreeze, "no-freeze", false, "let the function run between calls; Lambda freezes it")
	if err := f.Parse(args); err != nil {
		return err
	}
	var err error
	if c.Env, err = functionEnv(io.environ(), envFile); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	function, err := lambda.Start(c)
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer function.Close()
	_, _ = fmt.Fprintln(io.out, "takes invocations at", listener.Addr())
	return serveEnvironment(ctx, listener, function)
}

// functionEnv returns the container's environment variables and those of the file. The
// container's replace the file's.
func functionEnv(environ []string, file string) (map[string]string, error) {
	env := map[string]string{}
	if file != "" {
		var err error
		if env, err = readEnv(file); err != nil {
			return nil, err
		}
	}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if name != "PATH" && name != "HOME" && name != "HOSTNAME" {
			env[name] = value
		}
	}
	return env, nil
}

// serveEnvironment runs invocations until ctx ends, and completes the last one.
func serveEnvironment(ctx context.Context, listener net.Listener, function *lambda.Function) error {
	environment := remote.NewServer(function)
	server := &http.Server{Handler: environment, ReadHeaderTimeout: headerTimeout}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("take invocations: %w", err)
	case <-ctx.Done():
	}
	environment.Drain()
	stop, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := server.Shutdown(stop); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop taking invocations: %w", err)
	}
	return nil
}

// composedGateway has the flags of the gateway's container.
type composedGateway struct {
	check, admin, backend string // addresses of environments
	health                string
	secrets               string
	options
}

func (g *composedGateway) parse(args []string, io stdio) error {
	f := partFlags("gateway", io)
	f.StringVar(&g.check, "check", "", "`host:port,…` of the environments of the check function")
	f.StringVar(&g.admin, "admin", "", "`host:port,…` of the environments of the admin function")
	f.StringVar(&g.backend, "backend", "", "`host:port,…` of the environments of the backend")
	f.StringVar(&g.rest, "rest", ":8080", "`address` of the REST API")
	f.StringVar(&g.http, "http", ":8081", "`address` of the HTTP API")
	f.StringVar(&g.options.admin, "dashboard", ":8082", "`address` of the dashboard")
	f.StringVar(&g.health, "health", ":9000",
		"`address` that answers 200 when every function has an environment")
	f.StringVar(&g.secrets, "secrets", "/secrets", "`folder` of the secrets")
	return f.Parse(args)
}

// serveGateway runs the gateway's container.
func serveGateway(ctx context.Context, args []string, io stdio) error {
	var g composedGateway
	if err := g.parse(args, io); err != nil {
		return err
	}
	ready, err := composedReady(g.secrets, io.getenv)
	if err != nil {
		return err
	}
	listeners, err := listen(g.options)
	if err != nil {
		return err
	}
	defer listeners.close()
	pools := newPools(g.check, g.admin, g.backend)
	defer pools.close()
	log := slog.New(slog.NewTextHandler(io.errOut, nil))
	servers, err := startServers(listeners, pools.invokers(), gateway.AnyOrigin, log)
	if err != nil {
		return err
	}
	defer servers.stop()
	defer everyMinute(ctx, pools.admin, log)()
	health, err := net.Listen("tcp", g.health)
	if err != nil {
		return fmt.Errorf("-health: %w", err)
	}
	servers.start(health, pools)
	_, _ = fmt.Fprintln(io.out, "answers health checks at", health.Addr())
	if io.getenv("REST") == "" { // the host does not publish these ports under other numbers
		ready.REST, ready.HTTP, ready.Admin = url(listeners.rest), url(listeners.http), url(listeners.admin)
	}
	ready.banner(io.out, "a cluster of 3 primaries and 3 replicas")
	return servers.wait(ctx)
}

// pools are the functions' environments in other containers.
type pools struct{ check, admin, backend *remote.Pool }

func newPools(check, admin, backend string) *pools {
	pool := func(addresses string) *remote.Pool { return remote.NewPool(strings.Split(addresses, ",")...) }
	return &pools{check: pool(check), admin: pool(admin), backend: pool(backend)}
}

func (p *pools) invokers() invokers {
	return invokers{check: p.check, admin: p.admin, backend: p.backend, httpBackend: p.backend}
}

func (p *pools) close() {
	p.check.Close()
	p.admin.Close()
	p.backend.Close()
}

// ServeHTTP answers 503 until every function has an environment.
func (p *pools) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if p.check.Ready() == 0 || p.admin.Ready() == 0 || p.backend.Ready() == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// containerTimeout is the timeout of requests from within a container.
const containerTimeout = 5 * time.Second

// checkHealth is a health check for images without a shell.
func checkHealth(ctx context.Context, args []string, _ stdio) error {
	if len(args) != 1 {
		return errors.New("pass one URL")
	}
	ctx, cancel := context.WithTimeout(ctx, containerTimeout)
	defer cancel()
	return remote.Healthy(ctx, http.DefaultClient, args[0])
}
