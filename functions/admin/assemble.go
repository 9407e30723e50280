package main

import (
	"context"
	"log/slog"
	"net/http"
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
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/internal/usage"
	"tidegate/web/static"
)

func newDashboard(
	ctx context.Context, c settings, settings server.Config, client valkey.Client, bundle static.Bundle,
	log *slog.Logger,
) (http.Handler, error) {
	logins, err := throttle.New(client)
	if err != nil {
		return nil, err
	}
	owners, err := throttle.NewOwners(client)
	if err != nil {
		return nil, err
	}
	keys, sessions := registry.NewStore(client, c.pepper), session.NewStore(client, c.SessionIdle)
	keys.ForeignKeys = c.ForeignKeys
	checker := enforce.NewChecker(client, c.pepper)
	checker.ReservationExpiry = c.ReservationLease
	tokens := token.NewStore(client, c.pepper)
	kept, err := openJournal(c, client, keys, tokens, log)
	if err != nil {
		return nil, err
	}
	calls := usage.NewReader(client)
	registered := app.NewRegistry(keys, calls)
	health := &storeHealth{ping: sessions.Ping, sync: keys.Sync, log: log, now: time.Now}
	if kept != nil {
		health.journal = &journalHealth{Journal: kept, keys: registered,
			restores: c.JournalRestore == restoreAlways, retention: c.AuditRetention, log: log}
	}
	ctx, cancel := store.WithTimeouts(ctx, storeTimeout, c.ValkeyConnectTimeout)
	defer cancel()
	health.repair(ctx)
	return server.New(settings, server.Services{
		Keys: registered, Checker: checker, Usage: calls,
		Crossings: crossing.NewStore(client, log),
		Sessions:  sessions, Tokens: tokens, Logins: logins, Owners: owners, Journal: kept,
		Bundle: bundle, Pepper: c.pepper, Ready: health.ready, Log: log,
		StoreVersion: func(ctx context.Context) (string, error) { return store.Version(ctx, client) },
	})
}

// openJournal opens the journal, if there is one, and makes every change of keys,
// policies and tokens go there first.
func openJournal(
	c settings, client valkey.Client, keys *registry.Store, tokens *token.Store, log *slog.Logger,
) (*journal.Journal, error) {
	if c.Journal == "" {
		return nil, nil //nolint:nilnil // there is no journal, and nothing is wrong
	}
	kept, err := journal.OpenStore(c.Journal)
	if err != nil {
		return nil, err
	}
	j := journal.New(kept, client, audit.NewKey(c.pepper), c.JournalAway == queueChanges, log)
	keys.Audit().UseJournal(j)
	tokens.Audit().UseJournal(j)
	return j, nil
}
