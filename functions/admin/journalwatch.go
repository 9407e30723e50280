package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/registry"
)

// journalTime bounds what a start or a request of /healthz does for the journal. What is
// not done by then, the next one does.
const journalTime = 2 * time.Second

// How long a restore goes on: it begins no further part, and it ends.
const (
	restoreTime = 8 * time.Second
	restoreEnds = 20 * time.Second
)

// journalWatch ships what a crash left unshipped, notices what Valkey lost, takes
// checkpoints, and moves old entries of the audit out of Valkey.
type journalWatch struct {
	*journal.Journal
	keys     *registry.Store
	restores bool // what Valkey lost, without being asked
	// retention is how long entries of the audit stay in Valkey; 0 for ever
	retention time.Duration
	log       *slog.Logger
}

// check goes on when nobody waits any more. It reports whether it is to be called again
// at once, since a part of it is left.
func (w *journalWatch) check(ctx context.Context) (again bool) {
	ctx = context.WithoutCancel(ctx)
	behind, err := w.look(ctx)
	if err != nil && !behind {
		w.log.Warn("check the journal", "cause", err)
		return errors.Is(err, context.DeadlineExceeded)
	}
	if behind {
		if !w.restores {
			return false
		}
		if left, err := w.restore(ctx); left || err != nil {
			return left && err == nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, journalTime)
	defer cancel()
	if err := w.Upkeep(ctx, w.retention); err != nil {
		w.log.Warn("tend the journal", "cause", err)
	}
	return false
}

// look reports whether Valkey lost changes.
func (w *journalWatch) look(ctx context.Context) (behind bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, journalTime)
	defer cancel()
	err = w.Check(ctx)
	return w.Status(ctx).Behind > 0, err
}

// restore reports whether parts are left for another.
func (w *journalWatch) restore(ctx context.Context) (left bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, restoreEnds)
	defer cancel()
	ends := time.Now().Add(restoreTime)
	due := func() bool { return time.Now().After(ends) }
	summary, err := w.RestoreAll(ctx, w.keys, journal.Options{}, due, nil)
	if err == nil && summary.Left == 0 {
		by := registry.Edit{By: audit.Actor{Kind: "system", Name: "restore"}}
		err = journal.Log(ctx, w.keys, by)
	}
	w.log.Warn("restore", "buckets", summary.Written, "entries", summary.Lost, "left",
		summary.Left, "cause", err)
	return summary.Left > 0, err
}
