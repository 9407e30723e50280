package main

import (
	"context"
	"log/slog"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/registry"
)

// journalTime bounds what a start or a request of /healthz does for the journal. What is
// not done by then, the next one does.
const journalTime = 2 * time.Second

// journalWatch ships what a crash left unshipped, notices what Valkey lost, and takes
// checkpoints.
type journalWatch struct {
	*journal.Journal
	keys     *registry.Store
	restores bool // what Valkey lost, without being asked
	log      *slog.Logger
}

// check goes on when nobody waits any more.
func (w *journalWatch) check(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalTime)
	defer cancel()
	if err := w.Check(ctx); err != nil {
		w.log.Warn("check the journal", "cause", err)
		return
	}
	if w.Status(ctx).Behind > 0 {
		if w.restores {
			w.restore(ctx)
		}
		return
	}
	if err := w.Upkeep(ctx, 0); err != nil {
		w.log.Warn("take checkpoints", "cause", err)
	}
}

func (w *journalWatch) restore(ctx context.Context) {
	summary, err := w.RestoreAll(ctx, w.keys, journal.Options{}, nil, nil)
	if err == nil {
		by := registry.Edit{By: audit.Actor{Kind: "system", Name: "restore"}}
		err = journal.Log(ctx, w.keys, by)
	}
	w.log.Warn("restore", "buckets", summary.Written, "entries", summary.Lost, "left",
		summary.Left, "cause", err)
}
