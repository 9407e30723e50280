package main

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/dashboard"
	"tidegate/functions/admin/session"
	"tidegate/functions/admin/throttle"
	"tidegate/functions/admin/token"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/internal/usage"
	"tidegate/web/static"
)

const (
	storeTimeout = time.Second // to connect, and to answer
	retryPause   = time.Second // between two tries to connect
)

// connector is the dashboard, once there is a connection to the store. Until then it answers 503, and tries again with later requests: a function
// that starts while the store is away must still answer.
type connector struct {
	open func(context.Context) (http.Handler, error)
	away http.Handler
	log  *slog.Logger
	now  func() time.Time

	mu    sync.Mutex
	ready http.Handler // nil while there is no connection
	tried time.Time
}

func newConnector(c config, bundle static.Bundle, log *slog.Logger) (*connector, error) {
	settings, err := c.dashboard()
	if err != nil {
		return nil, err
	}
	away, err := dashboard.NewAway(settings, bundle, log)
	if err != nil {
		return nil, err
	}
	open := func(ctx context.Context) (http.Handler, error) {
		client, err := store.Open(ctx, c.ValkeyURL, store.Options{Dial: storeTimeout, Write: storeTimeout, Pooled: true})
		if err != nil {
			return nil, err
		}
		return newDashboard(ctx, c, settings, client, bundle, log)
	}
	return &connector{open: open, away: away, log: log, now: time.Now}, nil
}

func newDashboard(
	ctx context.Context, c config, settings dashboard.Config, client valkey.Client, bundle static.Bundle, log *slog.Logger,
) (http.Handler, error) {
	logins, err := throttle.New(client)
	if err != nil {
		return nil, err
	}
	keys, sessions := policy.NewStore(client, c.pepper), session.NewStore(client, c.SessionIdle)
	watch := &watch{ping: sessions.Ping, sync: keys.Sync, log: log, now: time.Now}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	watch.repair(ctx)
	return dashboard.New(settings, dashboard.Services{
		Keys: keys, Checker: policy.NewChecker(client, c.pepper), Usage: usage.NewReader(client),
		Sessions: sessions, Tokens: token.NewStore(client, c.pepper), Logins: logins,
		Bundle: bundle, Pepper: c.pepper, Ready: watch.ready, Log: log,
		StoreVersion: func(ctx context.Context) (string, error) { return store.Version(ctx, client) },
	})
}

// ServeHTTP connects if need be.
func (c *connector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.handler(r.Context()).ServeHTTP(w, r)
}

// handler is the dashboard, or what stands in for it. Those who come while one connects wait for the outcome.
func (c *connector) handler(ctx context.Context) http.Handler {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready != nil {
		return c.ready
	}
	if pause := c.now().Sub(c.tried); pause >= 0 && pause < retryPause {
		return c.away
	}
	ready, err := c.open(ctx)
	if err != nil {
		c.tried = c.now()
		c.log.Error("connect to the store", "error", err)
		return c.away
	}
	c.ready = ready
	return ready
}
