package main

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/auth/throttle"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/server"
	"tidegate/internal/audit"
	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/journal"
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
	open        func(context.Context) (http.Handler, error)
	unavailable http.Handler
	log         *slog.Logger
	now         func() time.Time

	mu      sync.Mutex
	attempt *attempt  // succeeded or under way; nil after a failure
	began   time.Time // start of the last attempt
}

// attempt is one attempt to connect. ready is set before done is closed, and nil after a
// failure.
type attempt struct {
	done  chan struct{}
	ready http.Handler
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
	open := func(ctx context.Context) (http.Handler, error) {
		client, err := store.Open(ctx, c.ValkeyURL,
			store.Options{Dial: c.ValkeyConnectTimeout, Write: storeTimeout, Pooled: true})
		if err != nil {
			return nil, err
		}
		return newDashboard(ctx, c, settings, client, log)
	}
	return &connector{open: open, unavailable: unavailable, log: log, now: time.Now}, nil
}

// ServeHTTP connects if necessary.
func (c *connector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.handler(r.Context()).ServeHTTP(w, r)
}

// handler returns the dashboard, or the unavailable server after a failure. Requests wait
// for the attempt under way. If an attempt of another request fails, perhaps because of a
// freeze, the request starts its own.
func (c *connector) handler(ctx context.Context) http.Handler {
	a, own := c.connect(ctx, false)
	for a != nil {
		select {
		case <-a.done:
		case <-ctx.Done():
			return c.unavailable
		}
		if a.ready != nil {
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

// newDashboard returns the dashboard on a connection to Valkey. It repairs the policies'
// copies first.
func newDashboard(
	ctx context.Context, c settings, settings server.Config, client valkey.Client, log *slog.Logger,
) (http.Handler, error) {
	logins := throttle.New(client)
	owners := throttle.NewOwners(client)
	keys, sessions := registry.NewStore(client, c.pepper), session.NewStore(client, c.SessionIdle)
	keys.ForeignKeys = c.ForeignKeys
	checker := enforce.NewChecker(client, c.pepper)
	tokens := token.NewStore(client, c.pepper)
	changes, err := openJournal(c, client, keys, tokens, log)
	if err != nil {
		return nil, err
	}
	calls := records.NewReader(client, time.Now)
	crossings := crossing.NewStore(client, log)
	crossings.Target = c.CrossingsTarget
	registered := app.NewRegistry(keys, calls, checker)
	health := &storeHealth{writable: keys.Writable, usable: keys.Usable, sync: keys.Sync, log: log,
		now: time.Now}
	if changes != nil {
		health.journal = &journalHealth{Journal: changes, keys: registered,
			restores: c.JournalRestore == restoreAlways, retention: c.AuditRetention, log: log}
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout+c.ValkeyConnectTimeout)
	defer cancel()
	health.repair(ctx)
	eviction := store.Eviction(ctx, client, c.ValkeyURL)
	if eviction != "" {
		log.WarnContext(ctx, "Valkey may evict keys and policies: set its maxmemory-policy to volatile-lfu",
			"maxmemory_policy", eviction)
	}
	return server.New(settings, server.Services{
		Keys: registered, Checker: checker, Records: calls,
		Crossings: crossings,
		Sessions:  sessions, Tokens: tokens, Logins: logins, Owners: owners, Journal: changes,
		Pepper: c.pepper, Ready: health.ready, Eviction: eviction, Log: log,
		StoreVersion: func(ctx context.Context) (string, error) { return store.Version(ctx, client) },
	})
}

// openJournal opens the journal. Every change of keys, policies and tokens is stored
// there before it is acknowledged. It returns nil if JOURNAL is not set.
func openJournal(
	c settings, client valkey.Client, keys *registry.Store, tokens *token.Store, log *slog.Logger,
) (*journal.Journal, error) {
	if c.Journal == "" {
		return nil, nil //nolint:nilnil // there is no journal, and nothing is wrong
	}
	storage, err := objects.Open(c.Journal)
	if err != nil {
		return nil, err
	}
	j := journal.New(storage, client, audit.NewKey(c.pepper), c.JournalAway == queueChanges, log)
	keys.Audit().UseJournal(j)
	tokens.Audit().UseJournal(j)
	return j, nil
}
