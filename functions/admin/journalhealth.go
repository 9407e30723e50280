package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
)

// journalTime is the time for the journal at a start or in a request of /healthz. The
// next one does the rest.
const journalTime = 2 * time.Second

// journalHealth stores entries that a crash left out of the journal, detects changes that
// Valkey lost, takes checkpoints, and moves old audit entries out of Valkey.
type journalHealth struct {
	*journal.Journal
	keys     *app.Registry
	restores bool // lost changes automatically
	// retention is how long audit entries stay in Valkey; 0 means for ever.
	retention time.Duration
	log       *slog.Logger
}

// check continues after the request ends. again reports that a part remains and check
// should be called again at once.
func (h *journalHealth) check(ctx context.Context) (again bool) {
	ctx = context.WithoutCancel(ctx)
	behind, err := h.isBehind(ctx)
	if err != nil && !behind {
		h.log.Warn("check the journal", "cause", err)
		return errors.Is(err, context.DeadlineExceeded)
	}
	if behind {
		if !h.restores {
			return false
		}
		if left, err := h.restore(ctx); left || err != nil {
			return left && err == nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, journalTime)
	defer cancel()
	if err := h.Upkeep(ctx, h.retention); err != nil {
		h.log.Warn("tend the journal", "cause", err)
	}
	return false
}

// isBehind reports whether Valkey lost changes.
func (h *journalHealth) isBehind(ctx context.Context) (behind bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, journalTime)
	defer cancel()
	err = h.Check(ctx)
	return h.Status(ctx).Behind > 0, err
}

// restore restores lost changes. left reports that parts remain.
func (h *journalHealth) restore(ctx context.Context) (left bool, err error) {
	by := app.Edit{By: audit.Actor{Kind: "system", Name: "restore"}}
	summary, err := app.RestoreLost(ctx, h.Journal, h.keys, by)
	h.log.Warn("restore", "buckets", summary.Written, "entries", summary.Lost, "left",
		summary.Left, "cause", err)
	return summary.Left > 0, err
}
