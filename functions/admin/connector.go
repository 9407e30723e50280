package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/auth/throttle"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/server"
	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/objects"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/internal/store"
)

const (
	storeTimeout = time.Second // to answer
	retryPause   = time.Second // between the starts of two attempts to connect
)

// connector serves the dashboard after it connects to Valkey. Until then it answers 503,
// and retries with later requests: a function that starts while Valkey is unreachable
// must still answer.
type connector struct {
	open        func(context.Context) (site, error)
	unavailable site
	log         *slog.Logger
	now         func() time.Time

	mu      sync.Mutex
	attempt *attempt  // succeeded or under way; nil after a failure
	began   time.Time // start of the last attempt
}

// site is the dashboard, and what runs once a minute.
type site struct {
	http.Handler

	minute func(context.Context) error
}

// attempt is one attempt to connect. ready is set before done is closed, and has no handler
// after a failure.
type attempt struct {
	done  chan struct{}
	ready site
}

func newConnector(c settings, log *slog.Logger) (*connector, error) {
	settings, err := c.dashboard()
	if err != nil {
		return nil, err
	}
	unavailable, err := server.NewUnavailable(settings, log)
	if err != nil {
		return nil, err
	}
	away := func(context.Context) error { return errNotConnected }
	open := func(ctx context.Context) (site, error) {
		client, err := store.Open(ctx, c.ValkeyURL,
			store.Options{Dial: c.ValkeyConnectTimeout, Write: storeTimeout, Pooled: true})
		if err != nil {
			return site{}, err
		}
		return newDashboard(ctx, c, settings, client, log)
	}
	return &connector{open: open, unavailable: site{unavailable, away}, log: log, now: time.Now}, nil
}

// ServeHTTP connects if necessary.
func (c *connector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.site(r.Context()).ServeHTTP(w, r)
}

var errNotConnected = errors.New("not connected to Valkey")

// minute brings Valkey to the newest change of the log, and stores what is not yet there.
func (c *connector) minute(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, auth.Long)
	defer cancel()
	return c.site(ctx).minute(ctx)
}

// site returns the dashboard, or the unavailable server after a failure. Requests wait
// for the attempt under way. If an attempt of another request fails, perhaps because of a
// freeze, the request starts its own.
func (c *connector) site(ctx context.Context) site {
	a, own := c.connect(ctx, false)
	for a != nil {
		select {
		case <-a.done:
		case <-ctx.Done():
			return c.unavailable
		}
		if a.ready.Handler != nil {
			return a.ready
		}
		if own {
			return c.unavailable
		}
		a, own = c.connect(ctx, true)
	}
	return c.unavailable
}

// connect returns the attempt that succeeded or is under way, or else starts one. After a
// failure it returns nil until retryPause after that attempt's start, unless the caller
// waited for that attempt. An attempt that failed in a freeze started long ago, so it
// delays no request.
func (c *connector) connect(ctx context.Context, waited bool) (a *attempt, own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempt != nil {
		return c.attempt, false
	}
	if pause := c.now().Sub(c.began); !waited && pause >= 0 && pause < retryPause {
		return nil, false
	}
	c.attempt = &attempt{done: make(chan struct{})}
	c.began = c.now()
	go c.run(context.WithoutCancel(ctx), c.attempt)
	return c.attempt, true
}

// run connects. It continues after the request that started it ends, so that the next
// request finds the connection.
func (c *connector) run(ctx context.Context, a *attempt) {
	defer close(a.done)
	ready, err := c.open(ctx)
	if err == nil {
		a.ready = ready
		return
	}
	c.log.Error("connect to the store", "cause", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempt = nil
}

// newDashboard returns the dashboard on a connection to Valkey. It begins the log if it is
// empty, and brings Valkey to its newest change. Pages, revocations and bans work without.
func newDashboard(ctx context.Context, c settings, settings server.Config, client valkey.Client,
	log *slog.Logger) (site, error) {
	storage, err := objects.Open(c.ChangesLog)
	if err != nil {
		return site{}, err
	}
	keys, sessions := registry.New(client, storage, c.pepper), session.NewStore(client, c.SessionIdle)
	keys.ForeignKeys = c.ForeignKeys
	checker, calls := enforce.NewChecker(client, c.pepper), records.NewReader(client, time.Now)
	crossings := crossing.NewStore(client, log)
	crossings.Target = c.CrossingsTarget
	ctx, cancel := context.WithTimeout(ctx, storeTimeout+c.ValkeyConnectTimeout)
	defer cancel()
	if err := keys.Start(ctx); err != nil {
		log.WarnContext(ctx, "catch up with the log of changes", "cause", err)
	}
	eviction := store.Eviction(ctx, client, c.ValkeyURL)
	if eviction != "" {
		log.WarnContext(ctx, "Valkey may evict keys and policies: set its maxmemory-policy to volatile-lfu",
			"maxmemory_policy", eviction)
	}
	handler, err := server.New(settings, server.Services{
		Keys: app.NewRegistry(keys, calls, checker), Checker: checker, Records: calls, Crossings: crossings,
		Sessions: sessions, Tokens: token.NewStore(keys, client, c.pepper), Logins: throttle.New(client),
		Owners: throttle.NewOwners(client), Pepper: c.pepper, Eviction: eviction, Log: log,
		Ready: func(ctx context.Context) error {
			if err := keys.Writable(ctx); err != nil {
				return err
			}
			return keys.Usable(ctx)
		},
		StoreVersion: func(ctx context.Context) (string, error) { return store.Version(ctx, client) },
	})
	return site{handler, keys.Start}, err
}
