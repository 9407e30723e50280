//go:build unix

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"tidegate/local/gateway"
	"tidegate/local/remote"
)

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
	f.StringVar(&g.admin, "admin", "", "the same of the admin function")
	f.StringVar(&g.backend, "backend", "", "the same of the backend")
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
